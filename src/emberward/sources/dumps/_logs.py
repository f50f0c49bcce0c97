"""Reads what torch's watchdog, its desync report and the launcher leave in logs.

Grammar: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp and TraceUtils.h, 1.13 to 2.13;
torch/distributed/elastic/multiprocessing/errors/__init__.py, 2.13.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from emberward.diagnose import FATAL, LogFact, LogFactKind
from emberward.events import Owner, owner_of, package_of

MAX_FACTS = 10_000
"""Most facts that are kept from one log."""

_WORK = re.compile(
    r"(?P<backend>NCCL|Gloo|UCC|XCCL|HCCL|MCCL)?\(SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+)"
    r"(?:, NumelIn=(?P<numel_in>\d+))?(?:, NumelOut=(?P<numel_out>\d+))?(?:, Timeout\(ms\)=(?P<timeout>\d+))?\)"
    r"(?: ran for (?P<ran>\d+) milliseconds)?"
)
_RANK = re.compile(r"\[(?:PG .*? )?[Rr]ank (\d+)\]|\[rank(\d+)\]|\bon rank (\d+)\b")
_GROUP = re.compile(r"\[PG (?:ID )?(?P<id>\S+)(?: PG GUID (?P<guid>[^\]]*?))? Rank \d+\]")
_LAST = re.compile(
    r"last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)"
)
_DESYNC = re.compile(
    r"\[(?P<ranks>[\d, ]+)\] (?P<what>finished|joined but didn't finish) collective #(?P<seq>\d+)"
    r"(?:, but didn't join collective #(?P<next>\d+))?"
)
_NEVER = re.compile(
    r"ranks \[(?P<ranks>[\d, ]+)\] are the lagging ranks|Ranks? (?P<absent>\d[\d, ]*) failed to pass monitoredBarrier"
)
# gloo/transport/tcp/pair.cc of torch 2.13: what came is larger than what the call has room for.
_SIZE = re.compile(r"op\.preamble\.length <= op\.nbytes\. (?P<came>\d+) vs (?P<room>\d+)")
_EXIT = re.compile(r"\brank\s*: (?P<rank>\d+)|\bexitcode\s*: (?P<code>-?\d+)|\blocal_rank: (?P<local>\d+)")
_EXIT_CODE = re.compile(r"^\s*exitcode\s*: ")
_SIGNAL = re.compile(r"Signal (?P<number>\d+) \((?P<name>SIG\w+)\) received by PID (?P<pid>\d+)")
_HEARTBEAT = re.compile(r"watchdog thread got stuck for (\d+) seconds|Heartbeat monitor timed out")
_IB = re.compile(r"NET/IB\s*:.*(?:error (?P<code>\d+)|port error)")
_PEER = re.compile(r"from peer (?P<peer>\d[\w.:]*)")
_TRACE_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in ')
_PREFIX = re.compile(r"^\[(?:rank|default)(\d+)\]:?", re.IGNORECASE)
# The last line of a traceback, or one that tells of memory, a disk or a crash without one.
_EXCEPTION = re.compile(r"^(?:\[\w+\]:?\s*)?(?P<words>(?:[\w.]+\.)?\w*(?:Error|Exception): \S.*)", re.MULTILINE)
_FATAL = re.compile(r"Fatal Python error: Segmentation fault|SIGSEGV|Segmentation fault")
_FULL = re.compile(
    r"CUDA out of memory|OutOfMemoryError|DefaultCPUAllocator: can't allocate|\bMemoryError\b"
    r"|No space left on device|Errno 28"
)
_LAUNCHER = re.compile(r"ChildFailedError|SignalException|NCCL communicator was aborted")
"""The launcher's own exceptions, and a consequence that names no peer."""


@dataclass(slots=True)
class LogDocument:
    """The facts of one log, in its order."""

    facts: list[LogFact] = field(default_factory=list)
    num_lines: int = 0


def looks_like_log(text: str) -> bool:
    """Whether the text holds a line of the grammar above."""
    head = text
    return any(
        pattern.search(head)
        for pattern in (_WORK, _DESYNC, _NEVER, _LAST, _SIGNAL, _HEARTBEAT, _IB, _SIZE, _EXCEPTION, _FATAL, _FULL)
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(item) for item in re.findall(r"\d+", text))


class _LogReader:
    def __init__(self, path: str, rank: int | None) -> None:
        self.path, self.file_rank = path, rank
        self.document = LogDocument()
        self.site: str | None = None
        self.program: str | None = None
        self.is_outermost = True
        self.is_thread = False
        self.exit_rank: int | None = None

    def add(self, kind: LogFactKind, number: int, text: str, **facts: object) -> None:
        """Keeps one fact, while there is room."""
        if len(self.document.facts) < MAX_FACTS:
            fact = LogFact(kind=kind, path=self.path, line=number, text=text.strip()[:400], **facts)  # type: ignore[arg-type]
            self.document.facts.append(fact)

    def line(self, number: int, text: str) -> None:
        """Takes one line."""
        frame = _TRACE_FRAME.search(text)
        if frame is not None:
            if self.is_outermost:
                self.program, self.is_outermost = package_of(frame["file"]), False
            if owner_of(frame["file"], self.program) is Owner.USER:
                self.site = f"{frame['file'].rpartition('/')[2]}:{frame['line']}"
            return
        if text.startswith("Exception in thread "):
            self.is_thread = True
        if "Traceback (most recent call last)" in text:
            self.site, self.is_outermost = None, True
        found = _RANK.search(text) or _PREFIX.search(text)
        rank = self.file_rank
        if found is not None:
            rank = int(next(group for group in found.groups() if group is not None))
        group = _GROUP.search(text)
        self._watchdog(number, text, rank, None if group is None else group["guid"] or group["id"])
        self._launcher(number, text, rank)

    def _watchdog(self, number: int, text: str, rank: int | None, group: str | None) -> None:
        for work in _WORK.finditer(text):
            self.add(
                LogFactKind.TIMEOUT,
                number,
                text,
                rank=rank,
                group=group,
                seq=int(work["seq"]),
            )
        last = _LAST.search(text)
        if last is not None:
            self.add(LogFactKind.LAST_WORK, number, text, rank=rank, group=group, seq=int(last["enqueued"]))
        for desync in _DESYNC.finditer(text):
            kind = LogFactKind.FINISHED_NOT_JOINED if desync["what"] == "finished" else LogFactKind.JOINED_NOT_FINISHED
            self.add(kind, number, text, ranks=_numbers(desync["ranks"]), seq=int(desync["seq"]))
        never = _NEVER.search(text)
        if never is not None:
            self.add(LogFactKind.NEVER_JOINED, number, text, ranks=_numbers(never["ranks"] or never["absent"]))
        size = _SIZE.search(text)
        if size is not None:
            word = f"{size['came']} bytes for a call of {size['room']}"
            self.add(LogFactKind.SIZE, number, text, rank=rank, word=word)
        if _HEARTBEAT.search(text):
            self.add(LogFactKind.HEARTBEAT_LOST, number, text, rank=rank)
        network = _IB.search(text)
        if network is not None:
            peer = _PEER.search(text)
            self.add(LogFactKind.NETWORK, number, text, rank=rank, word=None if peer is None else peer["peer"])

    def _launcher(self, number: int, text: str, rank: int | None) -> None:
        for found in _EXIT.finditer(text):
            if found["rank"] is not None:
                self.exit_rank = int(found["rank"])
        signal = _SIGNAL.search(text)
        if signal is not None:
            if signal["name"] not in ("SIGTERM", "SIGINT"):
                who = self.exit_rank if self.exit_rank is not None else rank
                code, pid = -int(signal["number"]), int(signal["pid"])
                self.add(LogFactKind.END, number, text, rank=who, exit_code=code, pid=pid)
            return
        is_table = _EXIT_CODE.search(text) is not None
        # What the launcher's table says of an exit code it says again, with the signal.
        words = None if is_table else _words(text)
        if words is not None or is_table:
            if words is not None:
                kind = LogFactKind.THREAD if self.is_thread else LogFactKind.END
                self.add(kind, number, text, rank=rank, word=words, site=self.site)
            self.site, self.is_thread = None, False


def _words(text: str) -> str | None:
    """The exception or fatal error that a line tells, as `RankEnd.words`; None for any other line."""
    if _LAUNCHER.search(text):
        return None
    if _FATAL.search(text):
        return f"{FATAL}Segmentation fault"
    found = _EXCEPTION.search(text)
    if found is not None:
        return found["words"][:400]
    return text.strip()[:400] if _FULL.search(text) else None


def read_log(text: str, *, path: str, rank: int | None = None, numbers: Sequence[int] | None = None) -> LogDocument:
    """The facts in a log. `rank`: whose log it is, when the file's name tells.

    `numbers`: which lines of the file the lines are, when it holds others too; else they are counted from 1.
    """
    reader = _LogReader(path, rank)
    lines = text.splitlines()
    # A carriage return of a progress bar makes more lines of the text than the file has.
    known = numbers if numbers is not None and len(numbers) == len(lines) else range(1, len(lines) + 1)
    for number, line in zip(known, lines, strict=True):
        reader.line(number, line[:4000])
    reader.document.num_lines = len(lines)
    return reader.document
