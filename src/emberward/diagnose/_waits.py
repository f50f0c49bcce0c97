"""What a thread's stack says it is doing: waiting for peers, or something that only its own rank does."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from emberward.diagnose._expression import does_save, polled_at, state_at
from emberward.diagnose._frames import (
    Frame,
    LineOf,
    ProcessStacks,
    ThreadStack,
    code_frame,
    package_frame,
    place_of,
    user_frame,
)
from emberward.diagnose._program import place_at, text_of
from emberward.diagnose._say import hang_finding, ranks_text, verb
from emberward.diagnose._states import cause_of_state, words_of_state
from emberward.events import STUCK, HostState, Owner
from emberward.findings import Cause, Finding, Severity

_C10D = "torch/distributed/distributed_c10d.py"
# fmt: off
_P2P_FUNCTIONS = frozenset(
    {
        "send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list",
        "_send_object", "_recv_object",
    }
)
# fmt: on
# fmt: off
_STORE_FUNCTIONS = frozenset(
    {
        "_store_based_barrier", "_new_process_group_helper", "init_process_group", "new_group",
        "_new_group_with_tag", "rendezvous",
    }
)
# fmt: on
_COLLECTIVE_FILES = (
    "torch/distributed/_functional_collectives",
    "torch/distributed/fsdp/",
    "torch/distributed/_composable/",
    "torch/distributed/pipelining/",
    "torch/distributed/tensor/",
    "torch/distributed/algorithms/",
    "torch/distributed/utils.py",
    "torch/nn/parallel/distributed.py",
)
"""Parts of torch that make collectives below a user's line, such as DDP's copies of buffers before a forward."""
_RECORDER = ("emberward/sources/_wrap.py", "emberward/sources/_issue.py")
_RECORDED_WAITS = frozenset({"wait", "wait_tensor"})
"""Our recorder's functions around the wait for a call: torch waits below them, whatever the program's line says."""
_PASSED_OVER = frozenset({"wrapper", "__exit__", "__call__", "inner", "_coalescing_manager"})
_LOOKS_UP = ("get_", "is_", "_get_", "_is_", "_check_", "_rank_")
"""How torch names what it only looks up in the process: ``get_rank``, ``is_initialized``, ``_get_default_group``."""
_NATIVE = (
    (HostState.STORE_WAIT, re.compile(r"c10d::(?:\w*Store|detail::\w*)::|TCPStore")),
    (HostState.P2P, re.compile(r"(?:gloo|c10d).*(?:send|recv|Send|Recv)")),
    (HostState.COLLECTIVE, re.compile(r"c10d::|gloo::|^nccl[A-Z]|ProcessGroup")),
    (HostState.NETWORK, re.compile(r"^sock_(?:recv|send|accept|connect)")),
    (HostState.SLEEP, re.compile(r"clock_nanosleep|pysleep|time_sleep|^__?nanosleep")),
    (HostState.GC, re.compile(r"gc_collect|collect_generations")),
    (HostState.SUBPROCESS, re.compile(r"wait4|waitpid|waitid")),
    (HostState.LOCK, re.compile(r"acquire_lock|acquire_timed|lock_PyThread|sem_(?:timed|clock)?wait|semlock_acquire")),
    (
        HostState.FILE_READ,
        re.compile(r"^(?:__)?(?:libc_)?p?read(?:64|v)?$|^fread|_io_\w*read|^__?open(?:64)?$|fileio_read"),
    ),
)
_NATIVE_DEPTH = 12
_COMPILE_FILES = (
    "torch/_inductor/",
    "torch/_dynamo/convert_frame.py",
    "torch/_dynamo/symbolic_convert.py",
    "triton/compiler",
)
_NETWORK_FILES = frozenset({"socket.py", "ssl.py", "smtplib.py", "ftplib.py"})
_NETWORK_PARTS = ("http/client.py", "urllib/request.py", "xmlrpc/client.py")
_POOL_RESULTS = ("multiprocessing/pool.py", "concurrent/futures/_base.py")
_POOL_MANAGERS = ("multiprocessing/pool.py", "concurrent/futures/process.py")
_WORKER_LOOPS = frozenset({("_worker_loop", "worker.py"), ("worker", "pool.py"), ("_process_worker", "process.py")})
# fmt: off
_ASKS = frozenset(
    {"poll", "select", "_poll", "wait", "get", "_recv", "recv_bytes", "_recv_bytes", "__enter__", "acquire"}
)
# fmt: on
"""In which function a worker waits for work."""
_LOCK_FILES = ("/filelock/", "/portalocker/", "torch/utils/file_baton.py")
"""Libraries that sleep until a lock file can be had."""
_READ_FILES = frozenset({"codecs.py", "gzip.py", "pathlib.py", "_pyio.py", "tarfile.py", "zipfile.py", "lzma.py"})


_TRIES = {
    Cause.LOCK: " between tries to get a lock",
    Cause.FILE_READ: " until a file is there",
    Cause.STORE_WAIT: " until a key of the store is set",
    Cause.SUBPROCESS: " until another process has ended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a process does, by its main thread. `site` is the innermost line that a user wrote; `path` runs inwards."""

    process: ProcessStacks
    kind: HostState
    site: str | None
    function: str | None
    source_line: str | None
    path: tuple[str, ...]
    frames: tuple[Frame, ...] = ()
    inner: Frame | None = None
    """The innermost line of an installed package that the user's line called."""
    polls: Cause | None = None
    """What it asks for between two sleeps: a lock, as of a file that it creates, or a file that another is to make."""
    is_stuck: bool = False
    """Whether it idles without a moment at which it must go on by itself; of a data worker, inside its work."""

    @property
    def place(self) -> str | None:
        """Where it is, for comparisons. See `place_of`."""
        return place_of(self.site, self.inner)

    @property
    def cause(self) -> Cause:
        """The word for it as a cause; UNKNOWN for classes that only wait."""
        return self.polls or cause_of_state(self.kind)

    @property
    def text(self) -> str:
        """What it does and where, in a few words."""
        where = f" at {self.site}" if self.site else ""
        inside = f" in {self.function}()" if self.function and self.function != "<module>" else ""
        waits = " and waits for a thread" if self.kind is HostState.EXIT and self.site else ""
        by = "" if self.inner is None else f", by {self.inner.function}() of {self.inner.site}"
        tries = "" if self.polls is None else _TRIES[self.polls]
        return f"{words_of_state(self.kind)}{tries}{waits}{inside}{where}{by}"


def _library_part(frames: tuple[Frame, ...]) -> list[Frame]:
    part = []
    for frame in frames:
        if not frame.is_platform:
            break
        part.append(frame)
    return part


def _is_call(frame: Frame) -> bool:
    """Whether a frame is one of torch's functions that call other ranks."""
    is_call = frame.function not in _PASSED_OVER and not frame.function.startswith(_LOOKS_UP)
    return is_call and frame.file.endswith(_C10D)


def _c10d_class(frames: list[Frame]) -> HostState | None:
    for frame in frames:
        if _is_call(frame):
            if frame.function in _P2P_FUNCTIONS:
                return HostState.P2P
            return HostState.STORE_WAIT if frame.function in _STORE_FUNCTIONS else HostState.COLLECTIVE
        if frame.file.endswith("torch/distributed/rendezvous.py"):
            return HostState.STORE_WAIT
        if any(mark in frame.file for mark in _COLLECTIVE_FILES):
            return HostState.COLLECTIVE
    is_recorded = any(f.file.endswith(_RECORDER) and f.function.rpartition(".")[2] in _RECORDED_WAITS for f in frames)
    return HostState.COLLECTIVE if is_recorded else None


def call_name(frames: tuple[Frame, ...]) -> str | None:
    """The innermost of torch's functions that call other ranks, below the program's line; None when there is none."""
    return next((frame.function for frame in _library_part(frames) if _is_call(frame)), None)


def makes_call(frames: tuple[Frame, ...]) -> bool:
    """Whether a stack is inside one of torch's calls between ranks, not only in a part of torch that makes some."""
    return call_name(frames) is not None


def _library_class(frames: list[Frame]) -> HostState | None:
    """The class that library frames between the innermost and the user's line give."""
    files = [frame.file for frame in frames]
    names = [frame.function.rpartition(".")[2] for frame in frames]
    if any(f.endswith("torch/utils/data/dataloader.py") for f in files):
        return HostState.DATALOADER
    found = _c10d_class(frames)
    if found is not None:
        return found
    if "_engine_run_backward" in names:
        return HostState.BACKWARD
    if any("torch/distributed/checkpoint/" in f for f in files):
        return HostState.CHECKPOINT_IO
    for file, name in zip(files, names, strict=True):
        if file.endswith("torch/serialization.py"):
            return HostState.FILE_READ if "load" in name else HostState.CHECKPOINT_IO
        if "torch/cuda/" in file and name in ("synchronize", "wait", "item"):
            return HostState.DEVICE_SYNC
        base = file.rpartition("/")[2]
        if base == "threading.py" and name == "_shutdown":
            return HostState.EXIT
        if base in ("subprocess.py", "popen_fork.py", "popen_spawn_posix.py"):
            return HostState.SUBPROCESS
        if base in _NETWORK_FILES or any(mark in file for mark in _NETWORK_PARTS):
            return HostState.NETWORK
        if base in _READ_FILES:
            return HostState.FILE_READ
        if base in ("threading.py", "queue.py", "synchronize.py", "queues.py", "connection.py", "_base.py"):
            return HostState.LOCK
    return None


def _native_class(frames: tuple[Frame, ...]) -> HostState | None:
    for frame in frames[:_NATIVE_DEPTH]:
        if not frame.is_native:
            return None
        for kind, pattern in _NATIVE:
            if pattern.search(frame.function):
                return kind
    return None


def _is_saving(frames: tuple[Frame, ...], line_of: LineOf) -> bool:
    """Whether a function in which the thread is writes a checkpoint, by the program's text."""
    users = [frame for frame in frames if not frame.is_platform][:4]
    return any(does_save(text_of(frame.file, line_of), frame.line or 0) for frame in users)


def _worker_at(frames: Sequence[Frame]) -> int | None:
    """The place of the loop in which a process takes work from its parent: a data worker's, or one of a pool's.

    A pool's threads have that loop too, but no start of a process around it.
    """
    names = [(frame.function.rpartition(".")[2], frame.file.rpartition("/")[2]) for frame in frames]
    loops = [n for n, name in enumerate(names) if name in _WORKER_LOOPS]
    if any(names[n][0] == "_worker_loop" for n in loops) or ("_bootstrap", "process.py") in names:
        return next(iter(loops), None)
    return None


def class_of(thread: ThreadStack, line_of: LineOf) -> HostState:
    """What the thread does. Native frames and the source line, where there are any, decide what Python cannot show."""
    frames = thread.frames
    if any("torch/distributed/elastic/agent/" in frame.file for frame in frames):
        return HostState.LAUNCHER
    cut = _worker_at(frames)
    if cut is not None:
        # A forked worker still carries the frames that its parent had when it forked.
        inner = frames[0].function.rpartition(".")[2]
        return HostState.WORKER_IDLE if code_frame(frames[:cut]) is None and inner in _ASKS else HostState.WORKER
    code = code_frame(frames)
    if _compiler_at(frames) is not None:
        # A compiler runs code of others (backends, symbolic algebra): what that does is compiling too.
        return HostState.COMPILE
    library = _library_class(_library_part(frames))
    native = _native_class(frames)
    strong = library is not None and library not in (HostState.LOCK, HostState.FILE_READ)
    found = library if strong else native or library
    if found is None and code is not None:
        found = state_at(text_of(code.file, line_of), line_of(code), code.line or 0)
    if found in (None, HostState.SLEEP, HostState.FILE_READ, HostState.LOCK) and _is_saving(frames, line_of):
        return HostState.CHECKPOINT_IO
    if found is not None:
        return found
    if not frames:
        return HostState.EXIT
    return HostState.CPU_LOOP if thread.is_active else HostState.UNKNOWN


def with_threads(readings: Sequence[Reading]) -> list[Reading]:
    """The readings; who idles below Python beside a thread that does so where none of its peers' is, waits for a lock.

    No stack shows a lock that the program takes itself: two threads that stand at once are what tells of it.
    """
    named: dict[str | None, set[int | None]] = defaultdict(set)
    at: dict[str, set[int | None]] = defaultdict(set)
    for reading in readings:
        for thread in reading.process.threads:
            named[thread.name].add(reading.process.pid)
            if (site := _idles_at(thread)) is not None:
                at[site].add(reading.process.pid)
    out = []
    for reading in readings:
        beside = [each for each in reading.process.threads if each is not reading.process.main]
        is_lock = reading.kind is HostState.UNKNOWN and any(
            len(named[thread.name]) > 1 and (site := _idles_at(thread)) is not None and len(at[site]) == 1
            for thread in beside
        )
        out.append(replace(reading, kind=HostState.LOCK) if is_lock else reading)
    return out


def _idles_at(thread: ThreadStack) -> str | None:
    """The line of the program at which the thread idles, with no frame of any library below it; None elsewhere."""
    inner = next(iter(thread.frames), None)
    return None if thread.is_active is not False or inner is None or inner.is_library else inner.site


def _inside_worker(thread: ThreadStack) -> ThreadStack:
    """The thread without the frames of the worker's loop: a forked one still carries those of its parent."""
    return replace(thread, frames=thread.frames[: _worker_at(thread.frames)])


def _caller_of_compiler(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The frames outside of the compiler: the line that made it compile, not what it runs inside."""
    at = _compiler_at(frames)
    return frames if at is None else frames[at + 1 :]


def _compiler_at(frames: tuple[Frame, ...]) -> int | None:
    """The place of the outermost frame of a compiler; None where there is none, or its module is merely imported.

    Torch imports the compiler when the first optimizer is made.
    """
    found = [i for i, frame in enumerate(frames) if any(mark in frame.file for mark in _COMPILE_FILES)]
    return None if not found or frames[found[-1]].function == "<module>" else found[-1]


def _waits_for_workers(process: ProcessStacks, main: ThreadStack) -> bool:
    """Whether the main thread waits for a result of a pool whose workers are processes: its threads manage those."""
    if not any(frame.file.endswith(_POOL_RESULTS) for frame in _library_part(main.frames)):
        return False
    inner = {frame.file for thread in process.threads if thread is not main for frame in thread.frames}
    is_managed = any(file.endswith(_POOL_MANAGERS) for file in inner)
    return is_managed and not any(
        frame.function in ("worker", "_worker") for thread in process.threads for frame in thread.frames
    )


def read_process(process: ProcessStacks, line_of: LineOf) -> Reading:
    """What the process does."""
    main = process.main
    if main is None:
        kind = HostState.UNKNOWN if process.stopped is None else HostState.STOPPED
        return Reading(
            process=process, kind=kind, site=None, function=None, source_line=None, path=(), is_stuck=kind in STUCK
        )
    kind = class_of(main, line_of)
    if kind is HostState.LOCK and _waits_for_workers(process, main):
        kind = HostState.SUBPROCESS
    frames = _caller_of_compiler(main.frames) if kind is HostState.COMPILE else main.frames
    user = user_frame(frames)
    if kind is HostState.EXIT and user is None:
        # A thread keeps the process: what that does is all that still goes on. Of several, none is known to be it.
        kept = [frame for t in process.threads if (frame := user_frame(t.frames)) is not None]
        user = kept[0] if len({frame.site for frame in kept}) == 1 else None
    line = None if user is None else line_of(user)
    return Reading(
        process=process,
        kind=kind,
        site=None if user is None else user.site,
        function=None if user is None else user.function,
        source_line=None if line is None else line.strip()[:120],
        path=tuple(f"{f.function} {f.site}" for f in reversed(main.frames) if not f.is_native),
        frames=main.frames,
        inner=package_frame(frames),
        polls=_polls(main.frames, line_of) if kind is HostState.SLEEP else None,
        is_stuck=kind in STUCK or (kind is HostState.WORKER and class_of(_inside_worker(main), line_of) in STUCK),
    )


def _polls(frames: tuple[Frame, ...], line_of: LineOf) -> Cause | None:
    """What a thread that sleeps waits for: in a library of file locks, or by what the loop around its line asks."""
    before = list(takewhile(lambda frame: frame.owner is not Owner.USER, frames))
    if any(mark in frame.file for frame in before for mark in _LOCK_FILES):
        return Cause.LOCK
    return polled_at(place_at(user_frame(frames), line_of))


def severity_of(readings: Sequence[Reading], *, is_lasting: bool) -> Severity:
    """ERROR for what cannot go on by itself, or has lasted for too long; WARNING where one snapshot cannot tell."""
    return Severity.ERROR if is_lasting or any(reading.is_stuck for reading in readings) else Severity.WARNING


def stuck_worker(workers: tuple[Reading, ...]) -> Reading | None:
    """The first data worker that does something else than wait for work; None when there is none."""
    return next((worker for worker in workers if worker.kind is HostState.WORKER), None)


def _inner_calls(reading: Reading) -> list[str]:
    """The innermost calls down to the user's line and its caller: of a long library part the two ends."""
    calls = list(reversed(reading.path))
    place = next((i for i, call in enumerate(calls) if reading.site and call.endswith(f" {reading.site}")), 3)
    if place <= 5:
        return calls[: place + 2]
    return [*calls[:3], "...", *calls[place - 1 : place + 2]]


def stack_evidence(reading: Reading, workers: tuple[Reading, ...]) -> list[str]:
    """What the stack shows, inner calls first, and what a stuck data worker does."""
    if reading.process.stopped is not None:
        return [f"py-spy says of process {reading.process.pid}: {reading.process.stopped}"]
    lines = [f"its stack: {' <- '.join(_inner_calls(reading))}"]
    if reading.source_line is not None:
        lines.append(f"{reading.site} reads: {reading.source_line}")
    worker = stuck_worker(workers)
    if worker is not None:
        what = "data worker" if reading.kind is HostState.DATALOADER else "worker"
        lines.append(f"its {what} (process {worker.process.pid}) is in {worker.function}() at {worker.site}")
    elif workers and reading.kind is HostState.SUBPROCESS:
        lines.append("every worker that left a stack waits for work: the result that it waits for was lost")
        anew = [w for w in workers if any(frame.function.endswith("_maintain_pool") for frame in w.frames)]
        lines += [f"{who_text(anew)} {verb(anew, 'was', 'were')} started in place of one that ended"] if anew else []
    return lines


def ranks_of(readings: Sequence[Reading]) -> list[int]:
    """The ranks of the processes where all have one; else none."""
    ranks = [r.process.rank for r in readings if r.process.rank is not None]
    return ranks if len(ranks) == len(readings) else []


def pids_of(readings: Sequence[Reading]) -> list[int]:
    """The numbers of the processes that have one."""
    return [r.process.pid for r in readings if r.process.pid is not None]


def hosts_of(readings: Sequence[Reading]) -> list[str]:
    """The hosts that are told."""
    return [r.process.host for r in readings if r.process.host is not None]


def who_text(readings: Sequence[Reading]) -> str:
    """The processes by rank where all have one, else by number."""
    if ranks := ranks_of(readings):
        return ranks_text(ranks)
    pids = sorted(pids_of(readings))
    return f"{verb(pids, 'process', 'processes')} {', '.join(map(str, pids[:12]))}" if pids else "a process"


def finding_on(
    code: str, message: str, culprits: Sequence[Reading], *, waiting: Sequence[Reading], **others: Any
) -> Finding:
    """A finding on processes: their ranks or numbers and hosts, who waits for them, and `others` of `hang_finding`.

    The line is that of the first one, unless `others` tells another.
    """
    return hang_finding(
        code,
        message,
        ranks=ranks_of(culprits),
        pids=pids_of(culprits),
        waiting=ranks_of(waiting),
        hosts=hosts_of(culprits),
        **{"site": culprits[0].site if culprits else None, **others},
    )
