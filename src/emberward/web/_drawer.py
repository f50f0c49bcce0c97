"""What is known of one rank: who it is, its last calls, where it stood, and the end of its log."""

import re
import shlex
from datetime import UTC, datetime

from emberward.events import describe
from emberward.findings import Severity
from emberward.report import Glance, Html, RunFolder, join, read_json, tag, tail_text
from emberward.sources.ring import read_ring

NUM_CALLS = 20
NUM_LOG_LINES = 40
MAX_BESIDE = 16
"""Ranks of one group that the drawer shows."""
MAX_LINE = 500
"""Characters of one line of a log; of a longer one its ends are shown."""
_RING = re.compile(r"rank(\d{5,})-(\d+)\.ring")


def drawer_part(glance: Glance, rank: int) -> Html:
    """The drawer of a rank; it says so when nothing is known of it. Reads the rank's ring and the end of its log."""
    known = next((each for each in glance.ranks if each.get("rank") == rank), None)
    facts = [
        ("host", (known or {}).get("host")),
        ("process", (known or {}).get("pid") or _pid_of_ring(glance.folder, rank)),
    ]
    facts += [(axis, index) for axis, index in ((known or {}).get("coordinates") or {}).items()]
    held = (known or {}).get("held_bytes")
    facts.append(("device", (known or {}).get("device")))
    facts += _machine(glance, known)
    facts += [("weights and moments", f"{held / 1e6:,.1f} MB")] if isinstance(held, int | float) else []
    shown = [tag("div", tag("dt", label), tag("dd", value)) for label, value in facts if value is not None]
    about = [
        finding
        for finding in glance.findings
        if (rank in finding.culprit_ranks or any(member.rank == rank for member in finding.cycle or ()))
        and (finding.severity is not Severity.NOTICE or finding is glance.told)
    ]
    return join(
        tag("h2", f"Rank {rank}", tabindex="-1", id="drawer-title"),
        tag("dl", *shown) if shown else tag("p", "No rank file says who this rank is.", class_="empty"),
        *(tag("p", tag("strong", f"{each.severity.value} {each.code} "), each.message) for each in about),
        *(tag("ul", *(tag("li", line) for line in each.evidence)) for each in about if each.evidence),
        _neighbours(glance, rank),
        _failure(glance.folder, rank),
        _stack_command(glance, known),
        tag("h3", "Last calls"),
        _calls(glance.folder, rank),
        tag("h3", "End of its log"),
        _log(glance.folder, rank),
    )


def _machine(glance: Glance, known: dict[str, object] | None) -> list[tuple[str, object]]:
    """What the launcher said of the machine; only of the ranks on its own host."""
    starts = [line for line in glance.attempts if line.get("event") == "start"]
    machine = starts[-1].get("machine") if starts else None
    if known is None or not isinstance(machine, dict) or machine.get("host") != known.get("host"):
        return []
    memory = machine.get("memory_bytes")
    facts: list[tuple[str, object]] = [("processor", f"{machine.get('processor')}, {machine.get('cores')} cores")]
    return facts + ([("memory", f"{memory / 1e9:.0f} GB")] if isinstance(memory, int) else [])


def _neighbours(glance: Glance, rank: int) -> Html | None:
    """The ranks of its groups: those whose place in the mesh differs along one axis alone. A click opens one."""
    places = {each["rank"]: each.get("coordinates") or {} for each in glance.ranks if isinstance(each.get("rank"), int)}
    own = places.get(rank) or {}
    rows = []
    for axis in own:
        beside = [
            each
            for each, at in sorted(places.items())
            if each != rank and at.keys() == own.keys() and all(at[key] == own[key] for key in own if key != axis)
        ]
        if beside:
            shown = [tag("button", each, type="button", class_="rank", data_rank=each) for each in beside[:MAX_BESIDE]]
            more = len(beside) - MAX_BESIDE
            shown += [tag("span", f"and {more} more", class_="note")] if more > 0 else []
            rows.append(tag("div", tag("span", axis, class_="row-name"), *shown, class_="mesh-row"))
    return join(tag("h3", "Its groups"), *rows) if rows else None


def _stack_command(glance: Glance, known: dict[str, object] | None) -> Html | None:
    """How to see where a living rank stands now: reading its stack holds the process, so a page does not."""
    pid = (known or {}).get("pid")
    if glance.state.is_over or not isinstance(pid, int):
        return None
    command = f"{shlex.quote(glance.program)} explain {pid}"
    return join(tag("h3", "Its stack now"), tag("p", tag("code", command),
                tag("button", "copy", type="button", data_copy=command), class_="command"))  # fmt: skip


def _failure(folder: RunFolder, rank: int) -> Html | None:
    said = read_json(folder.failure_file(rank))
    if said is None:
        return None
    text = str(said.get("traceback") or f"{said.get('type')}: {said.get('message')}")
    return join(tag("h3", "The exception that ended it"), tag("pre", text[-8000:], tabindex="0"))


def newest_ring(folder: RunFolder, rank: int) -> tuple[str, float] | None:
    """The newest copied ring of a rank, by its path, and when it was copied; None without one."""
    found = []
    try:
        for path in folder.events.glob("attempt-*/rank*.ring"):
            named = _RING.fullmatch(path.name)
            if named is not None and int(named[1]) == rank and not path.is_symlink():
                found.append((path.stat().st_mtime, str(path)))
    except OSError:
        return None
    return (max(found)[1], max(found)[0]) if found else None


def _pid_of_ring(folder: RunFolder, rank: int) -> int | None:
    """The process of a rank that wrote no file of its own, by the name of its ring."""
    ring = newest_ring(folder, rank)
    named = None if ring is None else _RING.fullmatch(ring[0].rpartition("/")[2])
    return None if named is None else int(named[2])


def _calls(folder: RunFolder, rank: int) -> Html:
    ring = newest_ring(folder, rank)
    if ring is None:
        return tag(
            "p", "Its ring is copied here at an incident and at the end of an attempt; none is there.", class_="empty"
        )
    path, copied_unix = ring
    view = read_ring(folder.path / path, num_events=NUM_CALLS)
    rows = []
    for event in view.events[-NUM_CALLS:]:
        is_open = event.completed_ns is None and event.issued_ns is not None
        site = "" if event.site is None else str(event.site)
        short = "/".join(site.split("/")[-2:])
        rows.append(
            tag("tr", tag("td", "open" if is_open else "done"), tag("td", describe(event.body)),
                tag("td", short, title=site), class_="open" if is_open else None)
        )  # fmt: skip
    marks = [f"{mark.kind.value}" + (f" at {mark.site}" if mark.site else "") for mark in view.open_marks]
    at = datetime.fromtimestamp(copied_unix, tz=UTC)
    where = f"In {' > '.join(marks)}. " if marks else ""
    note = tag(
        "p", f"{where}{view.num_calls:,} calls made in all; ring copied {at:%Y-%m-%d %H:%M:%S} UTC", class_="note"
    )
    head = tag("thead", tag("tr", *(tag("th", each, scope="col") for each in ("", "call", "line"))))
    if not rows:
        return join(note, tag("p", "It holds no call.", class_="empty"))
    return join(note, tag("div", tag("table", head, tag("tbody", *rows)), class_="scroll", tabindex="0", role="region",
                          aria_label=f"last calls of rank {rank}"))  # fmt: skip


def _log(folder: RunFolder, rank: int) -> Html:
    lines = tail_text(folder.rank_log(rank), num_lines=NUM_LOG_LINES)
    if not lines:
        return tag("p", "No log of this rank.", class_="empty")
    short = [
        line if len(line) <= MAX_LINE else f"{line[: MAX_LINE // 2]} ... {line[-MAX_LINE // 2 :]}" for line in lines
    ]
    return tag("pre", "\n".join(short), tabindex="0", aria_label=f"end of the log of rank {rank}")
