"""What a ring said at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emberward.events import Event, Group, Phase, Ref, Site
from emberward.sources.ring._format import MarkKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A stretch of time that the process named, or a moment (then `ended_ns` is `began_ns`).

    Times are the host's monotonic clock; `ended_ns` is None while it goes on, or when the process died in it.
    `thread` is an index into `RingView.threads`.
    """

    number: int
    kind: MarkKind
    step: int | None
    name: str | None
    site: Site | None
    thread: int
    began_ns: int
    ended_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCount:
    """Calls of one group that this process made. `sequence` is torch's own count of the group's collectives.

    Torch counts what it issues below Python too (DDP's reducer, functional collectives): `sequence` above `issued`
    says that such calls were made. None where nobody asked torch. `moved_ns`: when it was last seen to change.
    """

    issued: int
    completed: int
    p2p_issued: int
    p2p_completed: int
    sequence: int | None
    moved_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightCopy:
    """A dump of torch's flight recorder, as torch gave it (pickle or JSON), when it was taken, and the calls of stores.

    `store`: rows as `sources._store` writes them; None when they are older than the last such call.
    """

    data: bytes
    taken_unix: float
    store: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """How far along its certificate the rank is, and the rolling digest of what it did up to there."""

    position: int
    digest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadName:
    """A thread that made a call; `native_id` is the kernel's."""

    native_id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RingView:
    """What a rank's ring held when it was read. Whatever the file did not hold in good order is None or left out.

    `events` are the last calls, in the vocabulary of `emberward.events`; `sequences` gives for each call the k by which
    it meets its partners: the k-th collective of its group, the k-th transfer of its group, direction, peer and tag,
    counted from 1 over the whole life of the process. `is_complete`: the first call is still there.
    `numbers` gives an event's place in the order in which all threads made calls, `callers` its thread, `failures` are
    the calls that raised. Ages are as of the reading; `moved_age_s` is the time since anything but the heartbeat: a
    call or mark that began or ended, or torch's count of a group's calls that rose. `problems` are what the recorder
    could not do, and what was wrong with the file. `facts`: what should be alike on all ranks, by name: versions, and
    digests of the program's own files. `store`: the process's last calls of stores (`FlightCopy`), None when unknown.
    `sites`: all lines that it ever wrote down, whichever calls are left.
    """

    path: Path
    read_unix: float
    read_ns: int
    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    start_ticks: int | None = None
    host: str | None = None
    boot_id: str | None = None
    began_unix: float | None = None
    began_ns: int | None = None
    heartbeat_age_s: float | None = None
    step: int | None = None
    phase: Phase = Phase()
    phase_age_s: float | None = None
    moved_age_s: float | None = None
    marks: tuple[Mark, ...] = ()
    groups: Mapping[Group, GroupCount] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    sequences: Mapping[Ref, int] = field(default_factory=dict)
    numbers: Mapping[Ref, int] = field(default_factory=dict)
    callers: Mapping[Ref, int] = field(default_factory=dict)
    failures: frozenset[Ref] = frozenset()
    num_calls: int = 0
    threads: tuple[ThreadName, ...] = ()
    sites: tuple[Site, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    certificate: Certified | None = None
    flight: FlightCopy | None = None
    store: tuple[Any, ...] | None = None
    problems: tuple[str, ...] = ()
    is_complete: bool = False
    is_readable: bool = True

    @property
    def open_marks(self) -> tuple[Mark, ...]:
        """The marks that have begun and not ended, outermost first."""
        return tuple(mark for mark in self.marks if mark.ended_ns is None)
