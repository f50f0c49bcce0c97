"""What the kernel told of a process at one moment. Plain data; `sources.live` reads it."""

from dataclasses import dataclass
from enum import StrEnum


class ProcessState(StrEnum):
    """What the kernel calls the process's state."""

    RUNNING = "running"
    SLEEPING = "sleeping"
    DISK = "disk"
    STOPPED = "stopped"
    TRACED = "traced"
    ZOMBIE = "zombie"
    GONE = "gone"
    UNKNOWN = "unknown"


class WaitingIn(StrEnum):
    """Which kind of system call a thread sits in."""

    NANOSLEEP = "nanosleep"
    FUTEX = "futex"
    FUTEX_TIMED = "futex_timed"
    FUTEX_SHARED = "futex_shared"
    JOIN = "join"
    """A wait without a time-out for the end of another thread of the process."""
    READ = "read"
    WRITE = "write"
    OPEN = "open"
    CHILD = "child"
    POLL = "poll"
    EVENT = "event"
    """An epoll without a time-out that watches one file alone: the pair by which an event loop wakes itself."""
    FILE_LOCK = "file_lock"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFacts:
    """One thread. `cpu_ticks` counts user and system time; `waiting_in` is None while it runs or cannot be told.

    `read_bytes`: what passed its reads; `switches`: how often it gave up its processor to wait; None where that may not
    be read. `wakes_in_s`: seconds until the sleep that it is in ends; None where it is in none, or has no end that the
    kernel tells.
    """

    tid: int
    state: ProcessState
    cpu_ticks: int
    waiting_in: WaitingIn | None = None
    channel: str | None = None
    read_bytes: int | None = None
    switches: int | None = None
    wakes_in_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """One process at one moment. Bytes are those that passed its reads and writes; None where that may not be read."""

    pid: int
    state: ProcessState
    start_ticks: int | None = None
    parent_pid: int | None = None
    exit_code: int | None = None
    cpu_ticks: int = 0
    read_bytes: int | None = None
    written_bytes: int | None = None
    threads: tuple[ThreadFacts, ...] = ()
    command: str | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the process can still run."""
        return self.state not in (ProcessState.GONE, ProcessState.ZOMBIE)

    @property
    def main(self) -> ThreadFacts | None:
        """The main thread's facts."""
        return next((thread for thread in self.threads if thread.tid == self.pid), None)
