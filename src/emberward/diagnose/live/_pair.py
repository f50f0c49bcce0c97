"""Two snapshots at a job, read: who does what, who waits, what moved."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from emberward.diagnose import (
    Evidence,
    Frame,
    LineOf,
    LogFact,
    LogFactKind,
    ProcessStacks,
    RankFlight,
    Reading,
    by_short_name,
    in_store,
    is_creating,
)
from emberward.diagnose.live._motion import Motion, motions
from emberward.diagnose.live._reading import Reader, peer_thread
from emberward.diagnose.live._snapshot import Moment, RankSnapshot, RingFacts, Snapshot
from emberward.events import WAITING, HostState


class FlightsOf(Protocol):
    """Gives what the judge knows of each rank by its ring, and by `stacks` of those that wait in a call."""

    def __call__(
        self, rings: Mapping[int, RingFacts], *, stacks: Mapping[int, tuple[Frame, ...]]
    ) -> dict[int, RankFlight]: ...


@dataclass(slots=True)
class SnapshotPair:
    """Two snapshots at a job, read. `early` is None when there was one."""

    early: Snapshot | None
    snapshot: Snapshot
    line_of: LineOf
    flights_of: FlightsOf
    motions: dict[int, Motion] = field(init=False)
    _reader: Reader = field(init=False)
    readings: dict[int, Reading] = field(init=False)
    flights: dict[int, RankFlight] = field(init=False)
    waits_for_all: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.motions = motions(self.early, self.snapshot)
        self._reader = Reader(self.snapshot, self.motions)
        self.readings = {}
        for rank, seen in self.snapshot.ranks.items():
            stacks = seen.own_stacks
            if stacks is not None:
                self.readings[rank] = self._reader.read(stacks, self.line_of)
        rings = {rank: seen.ring for rank, seen in self.snapshot.ranks.items() if seen.ring is not None}
        waits = {rank: reading.frames for rank, reading in self.readings.items() if reading.kind in WAITING}
        self.flights = self.flights_of(rings, stacks=waits)
        self.readings = {rank: in_store(reading, self.flights.get(rank)) for rank, reading in self.readings.items()}
        self.waits_for_all = self._waits_for_all()

    def _waits_for_all(self) -> frozenset[int]:
        """Ranks that wait for the store or in a group's creation while some other rank is free to come."""
        idle = {r for r, reading in self.readings.items() if reading.kind is HostState.STORE_WAIT}
        idle |= {r for r, seen in self.snapshot.ranks.items() if self.is_creating(seen)}
        behind = {r for r in self.readings if self.has_peer_thread(r)}
        free = [
            r
            for r, seen in self.snapshot.ranks.items()
            if r not in idle
            and r not in behind
            and (r not in self.readings or self.readings[r].kind not in WAITING)
            and not (seen.ring is not None and r not in self.readings)
        ]
        return frozenset(idle | behind) if free else frozenset(behind)

    def is_creating(self, seen: RankSnapshot) -> bool:
        """Whether the rank is in the creation of a group."""
        stacks = seen.own_stacks
        if stacks is not None:
            return is_creating(stacks.main)
        return seen.ring is not None and seen.ring.creating is not None

    def has_peer_thread(self, rank: int) -> bool:
        """Whether the rank's main thread waits for another thread, and that one for a peer."""
        reading = self.readings.get(rank)
        if reading is None or reading.kind is not HostState.LOCK:
            return False
        return peer_thread(self.snapshot.ranks[rank].own_stacks, self.line_of) is not None

    def read(self, process: ProcessStacks, line_of: LineOf) -> Reading:
        """What a process does, by its stack, the kernel, and what the other ranks do."""
        reading = self._reader.read(process, line_of)
        if process.rank in self.waits_for_all:
            return replace(reading, kind=HostState.COLLECTIVE)
        return reading

    def ranked_readings(self) -> list[Reading]:
        """The readings, each of which names its rank and host."""
        return [
            replace(reading, process=replace(reading.process, rank=rank, host=self.snapshot.ranks[rank].host))
            for rank, reading in self.readings.items()
        ]

    def waiting(self) -> tuple[int, ...]:
        """Ranks that are alive and wait in a call for somebody."""
        inside = {rank for rank, reading in self.readings.items() if reading.kind in WAITING}
        inside |= {
            r for r, s in self.snapshot.ranks.items() if s.ring is not None and s.ring.blocked_record is not None
        }
        alive = (rank for rank, seen in self.snapshot.ranks.items() if seen.process.is_alive)
        return tuple(rank for rank in alive if rank in inside and not self.has_moved(rank))

    def lacked(self) -> frozenset[int]:
        """Ranks that did not make a collective in which another one waits, as far as rings and groups tell."""
        found: set[int] = set()
        for rank in self.waiting():
            head = None if rank not in self.flights else self.flights[rank].head
            part = None if head is None or head.is_p2p else self.flights[rank].groups.get(head.group)
            if part is None or head is None:
                continue
            for member in part.ranks or ():
                own = None if member not in self.flights else self.flights[member].groups.get(part.name)
                found |= {member} if own is None or own.enqueued < head.seq else set()
        return frozenset(found)

    def has_moved(self, rank: int) -> bool:
        """Whether calls of the rank began or ended between the snapshots, or during the second one."""
        motion, seen = self.motions.get(rank), self.snapshot.ranks.get(rank)
        return (motion is not None and motion.has_called) or (seen is not None and seen.has_moved)

    def evidence(self) -> Evidence:
        """What the judge of dumps reads."""
        stacks = [
            replace(process, rank=rank, host=seen.host)
            if process.pid == seen.process.pid
            else replace(process, rank=None, host=seen.host, parent_pid=seen.process.pid)
            for rank, seen in self.snapshot.ranks.items()
            for process in seen.stacks
        ]
        ended = [(rank, seen.ring.moment("thread_died")) for rank, seen in self.snapshot.ranks.items() if seen.ring]
        facts = [_of_thread(rank, moment) for rank, moment in ended if moment is not None]
        return Evidence(label="the job", flights=self.flights, stacks=stacks, facts=facts)

    def lines_by_short_name(self) -> LineOf:
        """`line_of` for lines as findings say them, whose files calls and stacks tell in full."""
        stacks = [process for seen in self.snapshot.ranks.values() for process in seen.stacks]
        rings = [seen.ring for seen in self.snapshot.ranks.values() if seen.ring is not None]
        files = [ring.open_call.file for ring in rings if ring.open_call is not None]
        return by_short_name(self.flights, stacks, self.line_of, files=files)


def _of_thread(rank: int, died: Moment) -> LogFact:
    """A thread's last exception as its rank's recorder noted it."""
    return LogFact(
        kind=LogFactKind.THREAD,
        path=f"ring of rank {rank}",
        line=0,
        text=f"the thread ended {died.age_s:.0f} s before the snapshot",
        rank=rank,
        word=died.text,
        site=died.site,
    )
