"""A trace: for every rank that was observed, its events in the order in which it issued them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from emberward.events._event import Body, Event, Lane, Phase, Ref, Site


class Observer(StrEnum):
    """Who wrote a trace."""

    PLAN = "plan"
    DRY_RUN = "dry_run"
    LIVE = "live"
    DUMP = "dump"


class Sink(Protocol):
    """Where an observer puts events. `put` never raises and never blocks."""

    def put(self, event: Event) -> None:
        """Takes one event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Events of every observed rank. A rank of the world that is not a key was not observed: unknown, not guilty.

    `credits` gives the capacity of each credit named by Acquire and Release, per rank or for all (rank None).
    """

    world_size: int
    events: Mapping[int, tuple[Event, ...]]
    observer: Observer
    credits: Mapping[tuple[int | None, str], int] = field(default_factory=lambda: MappingProxyType({}))
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for rank, events in self.events.items():
            if not 0 <= rank < self.world_size:
                raise ValueError(f"rank {rank} is outside the world of {self.world_size}")
            heads: dict[Lane, int] = {}
            for event in events:
                expected = heads.get(event.lane, 0)
                if event.rank != rank or event.position != expected:
                    raise ValueError(
                        f"rank {rank}, lane {event.lane}: expected position {expected} of rank {rank}, "
                        f"found position {event.position} of rank {event.rank}"
                    )
                heads[event.lane] = expected + 1

    @property
    def unknown_ranks(self) -> tuple[int, ...]:
        """Ranks of the world without events of their own."""
        return tuple(rank for rank in range(self.world_size) if rank not in self.events)

    def __iter__(self) -> Iterator[Event]:
        for rank in sorted(self.events):
            yield from self.events[rank]


class TraceBuilder:
    """Collects events and counts positions; the in-memory `Sink`."""

    def __init__(self, world_size: int, observer: Observer) -> None:
        self._world_size = world_size
        self._observer = observer
        self._events: dict[int, list[Event]] = {}
        self._heads: dict[tuple[int, Lane], int] = {}
        self._credits: dict[tuple[int | None, str], int] = {}

    def put(self, event: Event) -> None:
        """Takes an event that carries its own position."""
        self._events.setdefault(event.rank, []).append(event)
        self._heads[(event.rank, event.lane)] = event.position + 1

    def add(
        self,
        rank: int,
        lane: Lane,
        body: Body,
        *,
        after: Sequence[Ref] = (),
        site: Site | None = None,
        phase: Phase = Phase(),
    ) -> Event:
        """Appends `body` at the next position of `rank`'s `lane` and returns the event."""
        position = self._heads.get((rank, lane), 0)
        event = Event(rank=rank, lane=lane, position=position, body=body, after=tuple(after), site=site, phase=phase)
        self.put(event)
        return event

    def observe(self, rank: int) -> None:
        """Marks `rank` as observed even if it does nothing."""
        self._events.setdefault(rank, [])

    def set_credit(self, credit: str, capacity: int, *, rank: int | None = None) -> None:
        """Gives `credit` its capacity on one rank, or on all when `rank` is None."""
        self._credits[(rank, credit)] = capacity

    def build(self, *, assumptions: Sequence[str] = ()) -> Trace:
        """The trace so far."""
        return Trace(
            world_size=self._world_size,
            events={rank: tuple(events) for rank, events in self._events.items()},
            observer=self._observer,
            credits=dict(self._credits),
            assumptions=tuple(assumptions),
        )
