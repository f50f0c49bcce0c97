"""What the kernel told of a process at one moment. Plain data; `sources.live` reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from emberward.diagnose.live._typed import typed


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

    def to_json(self) -> dict[str, Any]:
        """The facts as plain data."""
        return {
            "pid": self.pid,
            "state": self.state.value,
            "start_ticks": self.start_ticks,
            "parent_pid": self.parent_pid,
            "exit_code": self.exit_code,
            "cpu_ticks": self.cpu_ticks,
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
            "command": self.command,
            "threads": [
                [
                    t.tid,
                    t.state.value,
                    t.cpu_ticks,
                    None if t.waiting_in is None else t.waiting_in.value,
                    t.channel,
                    t.read_bytes,
                    t.switches,
                    t.wakes_in_s,
                ]
                for t in self.threads
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ProcessFacts":
        """The facts that `to_json` gave. Raises ValueError, KeyError or TypeError on other data."""
        return typed(
            cls,
            **{key: data[key] for key in ("pid", "start_ticks", "parent_pid", "exit_code", "cpu_ticks", "command")},
            read_bytes=data["read_bytes"],
            written_bytes=data["written_bytes"],
            state=ProcessState(data["state"]),
            threads=tuple(
                typed(
                    ThreadFacts,
                    tid=tid,
                    state=ProcessState(state),
                    cpu_ticks=ticks,
                    waiting_in=None if call is None else WaitingIn(call),
                    channel=channel,
                    read_bytes=read,
                    switches=switches,
                    wakes_in_s=wakes[0] if wakes else None,
                )
                for tid, state, ticks, call, channel, read, switches, *wakes in data["threads"]
            ),
        )
