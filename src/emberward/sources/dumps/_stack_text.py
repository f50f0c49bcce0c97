"""Reads stacks that other tools printed: ``py-spy dump`` text and JSON, and faulthandler's text.

Formats: py-spy 0.4 ``dump`` and ``dump --json`` (github.com/benfred/py-spy, src/dump.rs), also with ranks grouped under
``N in:`` as people paste them; CPython 3.11 ``Modules/faulthandler.c`` and ``Python/traceback.c``.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from emberward.diagnose import Frame, ProcessStacks, StackSource, ThreadStack

MAX_THREADS = 20_000
"""Most threads that are read from one document."""
SECTION_GAP_LINES = 30
"""Lines of other text between stacks after which a new snapshot begins."""

_PROCESS = re.compile(r"^\s*Process (\d+): ?(.*)$")
_PARENT = re.compile(r"^\s*Parent Process (\d+)(?::|$)")
_HOST = re.compile(r"^\s*(?:node|host|hostname)[ :=]+([A-Za-z0-9][\w.-]*)\s*:?\s*$", re.IGNORECASE)
_RANK = re.compile(r"^\W*(?:\[?(?:global[ _])?rank)[ :=]*(\d{1,6})\]?\W*$", re.IGNORECASE)
_SHARED = re.compile(r"^\s*(\d+) (?:in|threads?|processes)\b.*:?\s*$")
_THREAD = re.compile(
    r"^\s*Thread(?: (?P<tid>0x[0-9A-Fa-f]+|\d+))?(?: \((?P<state>[a-z+]+)\))?(?:: \"(?P<name>[^\"]*)\")?\s*$"
)
_FRAME = re.compile(r"^\s*(?P<function>\S.*?) \((?P<file>[^()]+?)(?::(?P<line>\d+))?\)\s*$")
_FH_THREAD = re.compile(
    r"^(?:Current thread|Thread) 0x(?P<tid>[0-9a-fA-F]+)(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):"
)
_FH_FRAME = re.compile(r'^ +File "(?P<file>[^"]*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)$')
_FH_TIMEOUT = re.compile(r"^Timeout \(\d+:\d\d:\d\d")
# What py-spy writes in place of the stacks that it cannot take (anyhow's report of an error, with its causes).
_REFUSED = re.compile(r"^Error: .*(?:\n(?:[ \t]+\S.*|Caused by:|Stack backtrace:|[ \t]*$))*", re.MULTILINE)
_STOP_SIGNAL = re.compile(r"\bSIG(?:STOP|TSTP|TTIN|TTOU)\b")
# It writes this line of a process before it stops it for its stacks. Errors go to stderr, which `>` leaves out:
# of one that a signal has stopped already, the line is the last in the file.
_VERSION = re.compile(r"^Python v\d")
NO_STACK = "its version and then no stack, which it cannot take of a process that is stopped"
# What `py-spy dump --locals` writes below a frame, with the variables further in.
_LOCALS = re.compile(r"^(\s+)(?:Arguments|Locals):\s*$")
_FH_FATAL = re.compile(r"^Fatal Python error: (?P<what>.*)$")


@dataclass(slots=True)
class _Open:
    """A thread whose frames are still being read."""

    tid: int | None
    name: str | None
    state: str | None
    frames: list[Frame] = field(default_factory=list)


@dataclass(slots=True)
class StackDocument:
    """What one document held. `fatal` is faulthandler's own reason, e.g. "Segmentation fault"."""

    processes: list[ProcessStacks] = field(default_factory=list)
    fatal: str | None = None
    num_skipped: int = 0


def looks_like_stacks(text: str) -> bool:
    """Whether the text holds at least one stack of py-spy or faulthandler."""
    head = text
    return bool(
        re.search(r"^Process \d+: .*\nPython v\d", head, re.MULTILINE)
        or re.search(r"^\s*Thread(?: (?:0x[0-9A-Fa-f]+|\d+))? \((?:idle|active)[a-z+]*\)", head, re.MULTILINE)
        or re.search(r"^(?:Current thread|Thread) 0x[0-9a-fA-F]+.*\(most recent call first\):", head, re.MULTILINE)
    )


def without_refusals(text: str) -> str:
    """The text with empty lines for py-spy's own errors, which are no log of the job."""
    return _REFUSED.sub(lambda found: "\n" * found[0].count("\n"), text)


class _TextReader:
    def __init__(self, path: str, rank: int | None, host: str | None) -> None:
        self.path, self.file_rank, self.file_host = path, rank, host
        self.rank, self.host = rank, host
        self.pid: int | None = None
        self.parent: int | None = None
        self.command: str | None = None
        self.document = StackDocument()
        self.threads: list[ThreadStack] = []
        self.open: list[_Open] = []
        self.is_shared = False
        self.section = 0
        self.gap = 0
        self.has_stacks = False
        self.num_threads = 0
        self.locals_indent: int | None = None
        self.stopped: str | None = None
        self.is_unread = False

    def flush_process(self) -> None:
        """Ends a process that its own header opened."""
        self.flush_threads()
        if self.is_unread and not self.threads and self.stopped is None:
            self.stopped = NO_STACK
        if self.threads or self.stopped is not None:
            self.document.processes.append(self._process(self.pid, tuple(self.threads)))
        self.threads, self.stopped, self.is_unread = [], None, False
        self.pid = self.parent = self.command = None

    def _process(self, pid: int | None, threads: tuple[ThreadStack, ...]) -> ProcessStacks:
        return ProcessStacks(
            pid=pid,
            threads=threads,
            path=self.path,
            source=StackSource.PY_SPY,
            rank=self.rank,
            host=self.host,
            parent_pid=self.parent,
            command=self.command,
            section=self.section,
            stopped=self.stopped,
        )

    def flush_threads(self) -> None:
        """Ends the open threads; outside a process each main thread is a process of its own."""
        frames = tuple(self.open[-1].frames) if self.open else ()
        for item in self.open:
            own = frames if self.is_shared else tuple(item.frames)
            stack = ThreadStack(
                name=item.name,
                frames=own,
                os_thread_id=item.tid,
                is_active=None if item.state is None else item.state.startswith("active"),
                has_gil=None if item.state is None else "gil" in item.state,
            )
            if self.pid is not None:
                self.threads.append(stack)
            else:
                self._loose(stack)
        self.open = []

    def _loose(self, stack: ThreadStack) -> None:
        """A thread without a ``Process`` header: its own process when it is a main thread, else the last one's."""
        last = self.document.processes[-1] if self.document.processes else None
        is_main = stack.name in (None, "MainThread")
        if not is_main and last is not None and last.section == self.section:
            self.document.processes[-1] = ProcessStacks(
                pid=last.pid,
                threads=(*last.threads, stack),
                path=last.path,
                source=last.source,
                rank=last.rank,
                host=last.host,
                section=last.section,
            )
            return
        self.document.processes.append(self._process(stack.os_thread_id, (stack,)))

    def line(self, text: str) -> None:
        """Takes one line."""
        thread = _THREAD.match(text)
        if thread is not None and (thread["state"] is not None or thread["tid"] is not None):
            self._thread(thread)
            return
        if self.open:
            if self._is_variable(text):
                return
            frame = _FRAME.match(text)
            if frame is not None:
                line = frame["line"]
                self.open[-1].frames.append(
                    Frame(function=frame["function"], file=frame["file"], line=None if line is None else int(line))
                )
                self.gap = 0
                return
        self._other(text)

    def _is_variable(self, text: str) -> bool:
        """Whether the line is the list of a frame's variables, or one of them."""
        head = _LOCALS.match(text)
        if head is not None:
            self.locals_indent = len(head.group(1))
            return True
        if self.locals_indent is None or not text.strip():
            return False
        if len(text) - len(text.lstrip()) > self.locals_indent:
            return True
        self.locals_indent = None
        return False

    def _thread(self, found: re.Match[str]) -> None:
        self.locals_indent = None
        if self.open and not (self.is_shared and not self.open[-1].frames):
            self.flush_threads()
        if self.has_stacks and self.gap > SECTION_GAP_LINES:
            self.flush_threads()
            self.section += 1
            self.host = self.file_host
        self.num_threads += 1
        if self.num_threads > MAX_THREADS:
            self.document.num_skipped += 1
            return
        tid = found["tid"]
        self.open.append(_Open(tid=None if tid is None else int(tid, 0), name=found["name"], state=found["state"]))
        self.has_stacks, self.gap = True, 0

    def _other(self, text: str) -> None:
        self.gap += 1
        if not text.strip():
            return
        for pattern in (_PROCESS, _HOST, _RANK, _SHARED, _PARENT):
            found = pattern.match(text)
            if found is not None:
                break
        else:
            if self.open and self.open[-1].frames:
                self.flush_threads()
                self.is_shared = False
            if self.pid is not None and not (self.open or self.threads):
                if _STOP_SIGNAL.search(text):
                    self.stopped = re.sub(r"^\s*\d+: ", "", text).strip()
                self.is_unread = _VERSION.match(text) is not None
            return
        if pattern is _PARENT:
            self.parent = int(found.group(1))
            return
        self.flush_threads()
        if pattern is _PROCESS:
            self.flush_process()
            self.pid, self.command = int(found.group(1)), found.group(2).strip() or None
            self.is_shared = False
        elif pattern is _HOST:
            self.flush_process()
            self.host = found.group(1)
        elif pattern is _RANK:
            self.flush_process()
            self.rank = int(found.group(1))
        else:
            self.is_shared = int(found.group(1)) > 1


def read_py_spy_text(text: str, *, path: str, rank: int | None = None, host: str | None = None) -> StackDocument:
    """The stacks in a text of ``py-spy dump``, of one process or of many, with or without other text around them.

    Consecutive thread headers below ``4 in:`` share the frames that follow. A main thread without a ``Process``
    header is a process of its own, whose pid is its thread's number (true on Linux).
    """
    reader = _TextReader(path, rank, host)
    for line in text.splitlines():
        reader.line(line)
    reader.flush_process()
    return reader.document


class _FaultReader:
    """Cuts a text into the dumps that it holds: one ends with its main thread, which Python lists last."""

    def __init__(self) -> None:
        self.dumps: list[tuple[tuple[ThreadStack, ...], str | None]] = []
        self.threads: list[ThreadStack] = []
        self.open: _Open | None = None
        self.fatal: str | None = None
        self.num_threads = 0

    def flush_thread(self) -> None:
        if self.open is None:
            return
        self.threads.append(
            ThreadStack(name=self.open.name, frames=tuple(self.open.frames), thread_ident=self.open.tid)
        )
        is_main = bool(self.open.frames) and self.open.frames[-1].function == "<module>"
        self.open = None
        if is_main:
            self.flush_dump()

    def flush_dump(self) -> None:
        if self.threads:
            self.dumps.append((tuple(self.threads), self.fatal))
            self.threads, self.fatal = [], None

    def line(self, text: str) -> None:
        """Takes one line."""
        fatal = _FH_FATAL.match(text)
        if fatal is not None or _FH_TIMEOUT.match(text):
            self.flush_thread()
            self.flush_dump()
            self.fatal = None if fatal is None else fatal["what"].strip()
            return
        frame = _FH_FRAME.match(text)
        if frame is not None and self.open is not None:
            number = int(frame["line"]) if frame["line"].isdigit() else None
            self.open.frames.append(Frame(function=frame["function"], file=frame["file"], line=number))
            return
        self.flush_thread()
        header = _FH_THREAD.match(text)
        if header is None or self.num_threads >= MAX_THREADS:
            return
        tid = int(header["tid"], 16)
        if any(thread.thread_ident == tid for thread in self.threads):
            self.flush_dump()
        self.num_threads += 1
        self.open = _Open(tid=tid, name=header["name"], state=None)


def read_faulthandler(text: str, *, path: str, rank: int | None = None, host: str | None = None) -> list[StackDocument]:
    """A document for each process whose dump the text holds: its threads, and the fatal error when it was one.

    Of several dumps of the same threads (``dump_traceback_later`` with repeat) the last is kept.
    """
    reader = _FaultReader()
    for line in [*text.splitlines(), ""]:
        reader.line(line)
    reader.flush_dump()
    kept: dict[object, StackDocument] = {}
    for threads, fatal in reader.dumps:
        process = ProcessStacks(
            pid=None, threads=threads, path=path, source=StackSource.FAULTHANDLER, rank=rank, host=host
        )
        main = process.main
        kept[None if main is None else (main.thread_ident, _is_child(main))] = StackDocument(
            processes=[process], fatal=fatal
        )
    return list(kept.values())


def _is_child(main: ThreadStack) -> bool:
    """Whether it is a data worker: forked, it has the thread number of its parent."""
    return any(frame.function == "_worker_loop" for frame in main.frames)


def _frame_json(item: Any) -> Frame:
    line = item.get("line")
    return Frame(
        function=str(item.get("name", "?")),
        file=str(item.get("filename") or item.get("short_filename") or item.get("module") or "?"),
        line=line if isinstance(line, int) and line > 0 else None,
    )


def read_py_spy_json(data: Any, *, path: str, rank: int | None = None, host: str | None = None) -> StackDocument:
    """The stacks in parsed ``py-spy dump --json``: a list of threads, or a list of such lists, one a process.

    Raises ValueError when the value has another shape.
    """
    items = data if isinstance(data, list) else [data]
    flat = [t for item in items for t in (item if isinstance(item, list) else [item])]
    by_pid: dict[int | None, list[ThreadStack]] = {}
    info: dict[int | None, dict[str, Any]] = {}
    for thread in flat[:MAX_THREADS]:
        if not isinstance(thread, dict) or not isinstance(thread.get("frames"), list):
            raise ValueError("no list of threads with frames")
        pid = thread.get("pid") if isinstance(thread.get("pid"), int) else None
        by_pid.setdefault(pid, []).append(
            ThreadStack(
                name=thread["thread_name"] if isinstance(thread.get("thread_name"), str) else None,
                frames=tuple(_frame_json(frame) for frame in thread["frames"] if isinstance(frame, dict)),
                os_thread_id=thread.get("os_thread_id") if isinstance(thread.get("os_thread_id"), int) else None,
                thread_ident=thread.get("thread_id") if isinstance(thread.get("thread_id"), int) else None,
                is_active=thread.get("active") if isinstance(thread.get("active"), bool) else None,
                has_gil=thread.get("owns_gil") if isinstance(thread.get("owns_gil"), bool) else None,
            )
        )
        if isinstance(thread.get("process_info"), dict):
            info[pid] = thread["process_info"]
    document = StackDocument(num_skipped=max(0, len(flat) - MAX_THREADS))
    for pid, threads in by_pid.items():
        about = info.get(pid, {})
        parent = about.get("parent")
        parent_pid = parent.get("pid") if isinstance(parent, dict) else None
        document.processes.append(
            ProcessStacks(
                pid=pid,
                threads=tuple(threads),
                path=path,
                source=StackSource.PY_SPY,
                rank=rank if parent_pid not in by_pid else None,
                host=host,
                parent_pid=parent_pid if isinstance(parent_pid, int) else None,
                command=about.get("command_line") if isinstance(about.get("command_line"), str) else None,
            )
        )
    return document
