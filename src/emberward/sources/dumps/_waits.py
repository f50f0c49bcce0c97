"""What a thread's stack says it is doing: waiting for peers, or something that only its own rank does."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from emberward.findings import Cause
from emberward.sources.dumps._frames import (
    Frame,
    ProcessStacks,
    ThreadStack,
    code_frame,
    package_frame,
    place_of,
    user_frame,
)

LineOf = Callable[[Frame], str | None]
"""Gives the source line of a frame where the program's text is at hand, else None."""


class StackClass(StrEnum):
    """What a thread does."""

    COLLECTIVE = "collective"
    P2P = "p2p"
    BACKWARD = "backward"
    DEVICE_SYNC = "device_sync"
    DATALOADER = "dataloader"
    LOCK = "lock"
    SLEEP = "sleep"
    FILE_READ = "file_read"
    CHECKPOINT_IO = "checkpoint_io"
    STORE_WAIT = "store_wait"
    GC = "gc"
    COMPILE = "compile"
    SUBPROCESS = "subprocess"
    CPU_LOOP = "cpu_loop"
    EXIT = "exit"
    UNKNOWN = "unknown"
    LAUNCHER = "launcher"
    WORKER = "worker"
    WORKER_IDLE = "worker_idle"


WAITING = frozenset({StackClass.COLLECTIVE, StackClass.P2P, StackClass.BACKWARD, StackClass.DEVICE_SYNC})
"""Classes of a rank that waits for its peers or its device: never guilty by its stack alone."""
HELPERS = frozenset({StackClass.LAUNCHER, StackClass.WORKER, StackClass.WORKER_IDLE})
"""Classes of processes that are no rank."""
STUCK = frozenset({StackClass.LOCK, StackClass.DATALOADER, StackClass.STORE_WAIT, StackClass.EXIT})
"""Classes in which a rank idles without a moment at which it must go on by itself."""

_CAUSES = {
    StackClass.DATALOADER: Cause.DATALOADER_WORKER,
    StackClass.LOCK: Cause.LOCK,
    StackClass.SLEEP: Cause.SLEEP,
    StackClass.FILE_READ: Cause.FILE_READ,
    StackClass.CHECKPOINT_IO: Cause.CHECKPOINT_IO,
    StackClass.STORE_WAIT: Cause.STORE_WAIT,
    StackClass.GC: Cause.GC,
    StackClass.COMPILE: Cause.COMPILE,
    StackClass.SUBPROCESS: Cause.SUBPROCESS,
    StackClass.CPU_LOOP: Cause.CPU_LOOP,
    StackClass.EXIT: Cause.MAIN_EXITED,
}

TEXTS = {
    StackClass.COLLECTIVE: "waits in a collective",
    StackClass.P2P: "waits in a send or receive",
    StackClass.BACKWARD: "is in backward, whose collectives run below Python",
    StackClass.DEVICE_SYNC: "waits for its device",
    StackClass.DATALOADER: "waits for its data loader",
    StackClass.LOCK: "waits for a lock, an event or a thread",
    StackClass.SLEEP: "sleeps",
    StackClass.FILE_READ: "reads a file",
    StackClass.CHECKPOINT_IO: "writes a checkpoint",
    StackClass.STORE_WAIT: "waits for the rendezvous store",
    StackClass.GC: "runs the garbage collector",
    StackClass.COMPILE: "compiles",
    StackClass.SUBPROCESS: "waits for a child process",
    StackClass.CPU_LOOP: "runs code of its own",
    StackClass.EXIT: "has left its program and shuts down",
    StackClass.UNKNOWN: "is idle in a call below Python",
    StackClass.LAUNCHER: "is the launcher",
    StackClass.WORKER: "is a data worker at work",
    StackClass.WORKER_IDLE: "is an idle data worker",
}

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
_PASSED_OVER = frozenset({"wrapper", "__exit__", "__call__", "inner", "_coalescing_manager"})
_NATIVE = (
    (StackClass.STORE_WAIT, re.compile(r"c10d::(?:\w*Store|detail::\w*)::|TCPStore")),
    (StackClass.P2P, re.compile(r"(?:gloo|c10d).*(?:send|recv|Send|Recv)")),
    (StackClass.COLLECTIVE, re.compile(r"c10d::|gloo::|^nccl[A-Z]|ProcessGroup")),
    (StackClass.SLEEP, re.compile(r"clock_nanosleep|pysleep|time_sleep|^__?nanosleep")),
    (StackClass.GC, re.compile(r"gc_collect|collect_generations")),
    (StackClass.SUBPROCESS, re.compile(r"wait4|waitpid|waitid")),
    (StackClass.LOCK, re.compile(r"acquire_lock|acquire_timed|lock_PyThread|sem_(?:timed|clock)?wait|semlock_acquire")),
    (
        StackClass.FILE_READ,
        re.compile(r"^(?:__)?(?:libc_)?p?read(?:64|v)?$|^fread|_io_\w*read|^__?open(?:64)?$|fileio_read"),
    ),
)
_NATIVE_DEPTH = 12
# `.wait(` without a frame of threading or subprocess above it is a call below Python: that of a communication's work.
_SOURCE = (
    (StackClass.SLEEP, re.compile(r"\bsleep\(")),
    (StackClass.GC, re.compile(r"\bgc\.collect\(")),
    (StackClass.STORE_WAIT, re.compile(r"\bstore\.(?:get|wait)\(|TCPStore\(")),
    (
        StackClass.P2P,
        re.compile(r"(?:\b(?:dist|distributed)\.|(?<![\w.]))(?:send|recv|isend|irecv|batch_isend_irecv)\("),
    ),
    (
        StackClass.COLLECTIVE,
        re.compile(r"\bdist\.\w+\(|all_reduce|all_gather|reduce_scatter|broadcast\(|barrier\(|\.wait\("),
    ),
    (StackClass.SUBPROCESS, re.compile(r"subprocess\.|os\.system\(|waitpid\(")),
    (StackClass.CHECKPOINT_IO, re.compile(r"torch\.save\(|save_file\(|\.save\(|fsync\(")),
    (StackClass.FILE_READ, re.compile(r"\bopen\(|\.read\w*\(|os\.read\(|np\.load\(|torch\.load\(|readline")),
    (
        StackClass.LOCK,
        # What enters a plain name in C, without a frame of its own, is a lock, a condition or a semaphore.
        re.compile(r"\.acquire\(|^\s*with [\w.]+(?:\[[^\]]*\])?\s*:|\.get\(\)", re.IGNORECASE),
    ),
    (StackClass.DEVICE_SYNC, re.compile(r"\.item\(\)|\.tolist\(\)|\.cpu\(\)|synchronize\(")),
)
_SAVE_NAME = re.compile(r"(?:^|_)(?:save|checkpoint|ckpt)(?:_|s|$)|checkpoint", re.IGNORECASE)
_COMPILE_FILES = (
    "torch/_inductor/",
    "torch/_dynamo/convert_frame.py",
    "torch/_dynamo/symbolic_convert.py",
    "triton/compiler",
)
_READ_FILES = frozenset({"codecs.py", "gzip.py", "pathlib.py", "_pyio.py", "tarfile.py", "zipfile.py", "lzma.py"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a process does, by its main thread. `site` is the innermost line that a user wrote; `path` runs inwards."""

    process: ProcessStacks
    kind: StackClass
    site: str | None
    function: str | None
    source_line: str | None
    path: tuple[str, ...]
    frames: tuple[Frame, ...] = ()
    inner: Frame | None = None
    """The innermost line of an installed package that the user's line called."""

    @property
    def place(self) -> str | None:
        """Where it is, for comparisons. See `place_of`."""
        return place_of(self.site, self.inner)

    @property
    def cause(self) -> Cause:
        """The word for it as a cause; UNKNOWN for classes that only wait."""
        return _CAUSES.get(self.kind, Cause.UNKNOWN)

    @property
    def text(self) -> str:
        """What it does and where, in a few words."""
        where = f" at {self.site}" if self.site else ""
        inside = f" in {self.function}()" if self.function and self.function != "<module>" else ""
        waits = " and waits for a thread" if self.kind is StackClass.EXIT and self.site else ""
        by = "" if self.inner is None else f", by {self.inner.function}() of {self.inner.site}"
        return f"{TEXTS[self.kind]}{waits}{inside}{where}{by}"


def _library_part(frames: tuple[Frame, ...]) -> list[Frame]:
    part = []
    for frame in frames:
        if not frame.is_platform:
            break
        part.append(frame)
    return part


def _is_call(frame: Frame) -> bool:
    """Whether a frame is one of torch's functions that call other ranks."""
    return frame.file.endswith(_C10D) and frame.function not in _PASSED_OVER


def _c10d_class(frames: list[Frame]) -> StackClass | None:
    for frame in frames:
        if _is_call(frame):
            if frame.function in _P2P_FUNCTIONS:
                return StackClass.P2P
            return StackClass.STORE_WAIT if frame.function in _STORE_FUNCTIONS else StackClass.COLLECTIVE
        if frame.file.endswith("torch/distributed/rendezvous.py"):
            return StackClass.STORE_WAIT
        if any(mark in frame.file for mark in _COLLECTIVE_FILES):
            return StackClass.COLLECTIVE
    return None


def makes_call(frames: tuple[Frame, ...]) -> bool:
    """Whether a stack is inside one of torch's calls between ranks, not only in a part of torch that makes some."""
    return any(map(_is_call, _library_part(frames)))


def _library_class(frames: list[Frame]) -> StackClass | None:
    """The class that library frames between the innermost and the user's line give."""
    files = [frame.file for frame in frames]
    names = [frame.function.rpartition(".")[2] for frame in frames]
    if any(f.endswith("torch/utils/data/dataloader.py") for f in files):
        return StackClass.DATALOADER
    if any(any(mark in f for mark in _COMPILE_FILES) for f in files):
        return StackClass.COMPILE
    found = _c10d_class(frames)
    if found is not None:
        return found
    if "_engine_run_backward" in names:
        return StackClass.BACKWARD
    if any("torch/distributed/checkpoint/" in f for f in files):
        return StackClass.CHECKPOINT_IO
    for file, name in zip(files, names, strict=True):
        if file.endswith("torch/serialization.py"):
            return StackClass.FILE_READ if "load" in name else StackClass.CHECKPOINT_IO
        if "torch/cuda/" in file and name in ("synchronize", "wait", "item"):
            return StackClass.DEVICE_SYNC
        base = file.rpartition("/")[2]
        if base == "threading.py" and name == "_shutdown":
            return StackClass.EXIT
        if base in ("subprocess.py", "popen_fork.py", "popen_spawn_posix.py"):
            return StackClass.SUBPROCESS
        if base in _READ_FILES:
            return StackClass.FILE_READ
        if base in ("threading.py", "queue.py", "synchronize.py", "queues.py", "connection.py", "_base.py"):
            return StackClass.LOCK
    return None


def _native_class(frames: tuple[Frame, ...]) -> StackClass | None:
    for frame in frames[:_NATIVE_DEPTH]:
        if not frame.is_native:
            return None
        for kind, pattern in _NATIVE:
            if pattern.search(frame.function):
                return kind
    return None


def _source_class(line: str | None) -> StackClass | None:
    if line is None:
        return None
    for kind, pattern in _SOURCE:
        if pattern.search(line):
            return kind
    return None


def _is_saving(frames: tuple[Frame, ...]) -> bool:
    users = [frame for frame in frames if not frame.is_platform][:4]
    return any(_SAVE_NAME.search(frame.function) for frame in users)


def class_of(thread: ThreadStack, line_of: LineOf) -> StackClass:
    """What the thread does. Native frames and the source line, where there are any, decide what Python cannot show."""
    frames = thread.frames
    if any("torch/distributed/elastic/agent/" in frame.file for frame in frames):
        return StackClass.LAUNCHER
    if any(frame.function == "_worker_loop" for frame in frames):
        inner = frames[0].function.rpartition(".")[2]
        # A forked worker still carries the frames that its parent had when it forked.
        cut = next(i for i, frame in enumerate(frames) if frame.function == "_worker_loop")
        idle = code_frame(frames[:cut]) is None and inner in (
            "poll",
            "select",
            "_poll",
            "wait",
            "get",
            "_recv",
            "recv_bytes",
            "_recv_bytes",
        )
        return StackClass.WORKER_IDLE if idle else StackClass.WORKER
    code = code_frame(frames)
    if any(mark in frame.file for frame in frames for mark in _COMPILE_FILES):
        # A compiler runs code of others (backends, symbolic algebra): what that does is compiling too.
        return StackClass.COMPILE
    library = _library_class(_library_part(frames))
    native = _native_class(frames)
    strong = library is not None and library not in (StackClass.LOCK, StackClass.FILE_READ)
    found = library if strong else native or library
    if found is None and code is not None:
        found = _source_class(line_of(code))
    if found in (None, StackClass.SLEEP, StackClass.FILE_READ, StackClass.LOCK) and _is_saving(frames):
        return StackClass.CHECKPOINT_IO
    if found is not None:
        return found
    if not frames:
        return StackClass.EXIT
    return StackClass.CPU_LOOP if thread.is_active else StackClass.UNKNOWN


def _caller_of_compiler(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The frames outside of the compiler: the line that made it compile, not what it runs inside."""
    last = max(i for i, frame in enumerate(frames) if any(mark in frame.file for mark in _COMPILE_FILES))
    return frames[last + 1 :]


def read_process(process: ProcessStacks, line_of: LineOf) -> Reading:
    """What the process does."""
    main = process.main
    if main is None:
        return Reading(process=process, kind=StackClass.UNKNOWN, site=None, function=None, source_line=None, path=())
    kind = class_of(main, line_of)
    frames = _caller_of_compiler(main.frames) if kind is StackClass.COMPILE else main.frames
    user = user_frame(frames)
    if kind is StackClass.EXIT and user is None:
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
    )
