"""What an observer saw of one process at one instant: facts alone. `diagnose` says what they mean."""

from dataclasses import dataclass
from enum import StrEnum

KEPT_BY = "kept by threads "
"""How a mark of the main thread's end is named when threads keep the process; their system numbers follow."""


class HostState(StrEnum):
    """What the main thread of a process does."""

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
    NETWORK = "network"
    CPU_LOOP = "cpu_loop"
    EXIT = "exit"
    INTERPRETER = "interpreter"
    """A native call keeps the interpreter's lock: no thread of the process runs Python."""
    STOPPED = "stopped"
    """A signal stopped the process, so that no thread of it runs."""
    UNKNOWN = "unknown"
    LAUNCHER = "launcher"
    WORKER = "worker"
    WORKER_IDLE = "worker_idle"


WAITING = frozenset({HostState.COLLECTIVE, HostState.P2P, HostState.BACKWARD, HostState.DEVICE_SYNC})
"""States of a rank that waits for its peers or its device: never guilty by its stack alone."""
HELPERS = frozenset({HostState.LAUNCHER, HostState.WORKER, HostState.WORKER_IDLE})
"""States of processes that are no rank."""
STUCK = frozenset({HostState.LOCK, HostState.DATALOADER, HostState.STORE_WAIT, HostState.EXIT, HostState.STOPPED})
"""States in which a rank idles without a moment at which it must go on by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One process at one instant, as one observer saw it. Absent facts are None or empty.

    `state` and `places` are what a stack shows. A recorder that kept the calls of a process (`has_calls`) tells the
    `operation` that is open, and from which `places`. These are lines of code, ``file:line``, the innermost first.
    `threads` are pthread handles, which the recorder and the stack of one process share.
    """

    rank: int | None = None
    pid: int | None = None
    host: str | None = None
    state: HostState | None = None
    has_calls: bool = False
    operation: str | None = None
    places: tuple[str, ...] = ()
    threads: frozenset[str] = frozenset()
