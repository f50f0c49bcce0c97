"""Reads reports of NCCL's RAS service, text and JSON.

Format: NCCL user guide, "RAS" (docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html), text
since NCCL 2.24, JSON since 2.28.7. RAS counts launches, not completions: "OK" is no proof of progress.
"""

import re
from typing import Any

from emberward.diagnose import RasComm, RasMember, RasReport

_COMM = re.compile(r"^\s*#(?P<id>\d+-\d+) \((?P<hash>[0-9a-fx]+)\) (?P<status>[A-Z]+)\s*$")
_COUNT = re.compile(r"^\s*(?P<n>\d+) ranks? ha(?:ve|s) launched up to operation (?P<op>\d+)")
_ONE = re.compile(r"^\s*Rank (?P<rank>\d+) has launched up to operation (?P<op>\d+)(?P<rest>.*)$")
_MEMBER = re.compile(r"Rank (?P<rank>\d+) -- GPU \d+ managed by process (?P<pid>\d+) on node (?P<node>\S+)")
_MANAGED = re.compile(r"managed by process (?P<pid>\d+) on node (?P<node>\S+)")
_MISSING = re.compile(r"^\s*The missing ranks?: (?P<ranks>[\d, -]+)")
_PROCESS = re.compile(r"^\s*Process (?P<pid>\d+) on node (?P<node>\S+) managing GPU")
_HEAD = re.compile(r"^\s*Group\s+Comms\s+Nodes\s+Ranks", re.MULTILINE)


def looks_like_ras_text(text: str) -> bool:
    """Whether the text is a RAS report."""
    return bool(_HEAD.search(text)) and ("Ranks" in text and "Status" in text)


def looks_like_ras_json(data: object) -> bool:
    """Whether a parsed JSON value is a RAS report."""
    return isinstance(data, dict) and isinstance(data.get("communicators"), list) and "nccl_version" in data


class _TextReader:
    def __init__(self, path: str) -> None:
        self.report = RasReport(path=path)
        self.name: str | None = None
        self.members: list[RasMember] = []
        self.counts: list[tuple[int, int]] = []
        self.is_dead = False

    def flush(self) -> None:
        """Ends a communicator's paragraph."""
        if self.name is not None:
            leading = max((op for _, op in self.counts), default=None)
            self.report.comms.append(RasComm(name=self.name, members=tuple(self.members), leading=leading))
        self.name, self.members, self.counts = None, [], []

    def line(self, text: str) -> None:
        """Takes one line."""
        comm = _COMM.match(text)
        if comm is not None:
            self.flush()
            self.name = f"#{comm['id']} ({comm['hash']})"
            return
        if text.strip() in ("DEAD", "INCOMPLETE", "TIMEOUT", "Errors", "Warnings"):
            self.flush()
            self.is_dead = text.strip() == "DEAD"
        process = _PROCESS.match(text)
        if process is not None:
            self.report.processes.append(
                RasMember(
                    rank=None, pid=int(process["pid"]), host=process["node"], is_missing=True, is_dead=self.is_dead
                )
            )
        if self.name is not None:
            self._member(text)

    def _member(self, text: str) -> None:
        count, one, member, missing = _COUNT.match(text), _ONE.match(text), _MEMBER.search(text), _MISSING.match(text)
        if count is not None:
            self.counts.append((int(count["n"]), int(count["op"])))
        elif one is not None:
            self.counts.append((1, int(one["op"])))
            managed = _MANAGED.search(one["rest"])
            self.members.append(
                RasMember(
                    rank=int(one["rank"]),
                    pid=None if managed is None else int(managed["pid"]),
                    host=None if managed is None else managed["node"],
                    launched=int(one["op"]),
                )
            )
        elif member is not None:
            self.members.append(
                RasMember(
                    rank=int(member["rank"]),
                    pid=int(member["pid"]),
                    host=member["node"],
                    launched=self.counts[-1][1] if self.counts else None,
                )
            )
        elif missing is not None:
            self.members += [
                RasMember(rank=int(r), pid=None, host=None, is_missing=True)
                for r in re.findall(r"\d+", missing["ranks"])
            ]


def read_ras_text(text: str, *, path: str) -> RasReport:
    """The outliers that a RAS text report names."""
    reader = _TextReader(path)
    for line in text.splitlines():
        reader.line(line)
    reader.flush()
    return reader.report


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _member_json(item: dict[str, Any], *, is_missing: bool) -> RasMember:
    status = item.get("status")
    counts = item.get("collective_counts")
    numbers = [n for n in counts.values() if isinstance(n, int)] if isinstance(counts, dict) else []
    return RasMember(
        rank=_whole(item.get("rank")),
        pid=_whole(item.get("pid")),
        host=str(item["host"]) if "host" in item else None,
        launched=sum(numbers) if numbers else None,
        is_missing=is_missing,
        is_dead=isinstance(status, dict) and status.get("considered_dead") is True,
    )


def read_ras_json(data: dict[str, Any], *, path: str) -> RasReport:
    """The communicators of a RAS JSON report, all members. Raises ValueError when it has another shape."""
    report = RasReport(path=path)
    for item in data["communicators"]:
        if not isinstance(item, dict):
            raise ValueError("a communicator is no object")
        members = []
        for key, is_missing in (("ranks", False), ("missing_ranks", True)):
            rows = item.get(key, [])
            members += [_member_json(m, is_missing=is_missing) for m in rows if isinstance(m, dict)]
        launched = [m.launched for m in members if m.launched is not None]
        leading = max(launched, default=None)
        report.comms.append(
            RasComm(
                name=str(item.get("hash", "?")),
                members=tuple(members),
                leading=leading,
            )
        )
    return report
