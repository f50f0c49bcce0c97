"""What was read, as Observations; and the stacks with the ranks that `diagnose` gives their processes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from emberward.diagnose._calls import RankFlight
from emberward.diagnose._frames import Frame
from emberward.diagnose._identity import identify
from emberward.diagnose._names import host_of_name
from emberward.diagnose._say import ranks_text
from emberward.diagnose._waits import Reading, call_name
from emberward.events import HELPERS, Observation
from emberward.findings import Certainty

_NO_RANK = "process {pid} may be any of {ranks}: nothing tells which"


def _places(frames: Sequence[Frame]) -> tuple[str, ...]:
    # Of a path, py-spy and the recorder keep parts of different length.
    return tuple(f"{Path(frame.file).name}:{frame.line}" for frame in frames if not frame.is_platform)


def of_reading(reading: Reading, *, host: str | None) -> Observation:
    """A process as its stack shows it."""
    process = reading.process
    return Observation(
        rank=process.rank,
        pid=process.pid,
        host=host,
        state=reading.kind,
        operation=call_name(reading.frames),
        places=_places(reading.frames),
        threads=frozenset(str(t.thread_ident) for t in process.threads if t.thread_ident is not None),
    )


def of_flight(flight: RankFlight, *, host: str | None) -> Observation:
    """A rank as its recorder shows it."""
    head = flight.head
    return Observation(
        rank=flight.rank,
        host=host,
        has_calls=True,
        operation=None if head is None else head.op,
        places=() if head is None else _places(head.frames),
        threads=flight.thread_ids,
    )


def with_ranks(
    readings: Sequence[Reading], flights: Mapping[int, RankFlight], world: Collection[int]
) -> tuple[list[Reading], list[str]]:
    """(the readings, each with the rank that its process is; lines that say what that rests on).

    A rank is given where dumps tell of ranks and no stack does; see `diagnose` [Note: identity].
    """
    mains = {r.process.pid for r in readings if r.kind not in HELPERS and r.process.pid is not None}
    own = [i for i, r in enumerate(readings) if r.kind not in HELPERS and r.process.parent_pid not in mains]
    if not flights or all(readings[i].process.rank is not None for i in own):
        return list(readings), []
    # Where dumps are missing, the processes may be more than the ranks that the others tell of.
    ranks = range(max(len(world), len(own)))
    hosts, of_dump = _hosts([readings[i] for i in own], flights)
    seen = [of_reading(readings[i], host=host) for i, host in zip(own, hosts, strict=True)]
    known = {rank: of_flight(flights[rank], host=of_dump[rank]) if rank in flights else None for rank in ranks}
    out, notes, given = list(readings), [], []
    for i, identity in zip(own, identify(seen, known), strict=True):
        process = readings[i].process
        if identity.rank is not None and process.rank is None:
            out[i] = replace(readings[i], process=replace(process, rank=identity.rank))
            if identity.certainty is Certainty.INFERRED:
                given.append(f"{process.pid} is rank {identity.rank}")
        elif identity.rank is None and identity.candidates and process.pid is not None:
            notes.append(_NO_RANK.format(pid=process.pid, ranks=ranks_text(identity.candidates)))
    if given:
        shown = ", ".join(given[:8]) + (f" and {len(given) - 8} more" if len(given) > 8 else "")
        notes.insert(0, f"stacks without ranks, by calls, lines and the order of pids: process {shown}")
    return out, notes[:3]


def _hosts(
    readings: Sequence[Reading], flights: Mapping[int, RankFlight]
) -> tuple[list[str | None], dict[int, str | None]]:
    """(the host of each stack, that of each dump): told, else by folder; else stacks by file, to order their pids."""
    named = {rank: host_of_name(Path(flight.path).name) for rank, flight in flights.items()}
    told = [r.process.host for r in readings]
    if any(told):
        return told, dict(named) if set(filter(None, named.values())) & set(filter(None, told)) else dict.fromkeys(
            named
        )
    folders = {rank: str(Path(flight.path).parent) for rank, flight in flights.items()}
    of_stack = [str(Path(r.process.path).parent) for r in readings]
    if len(set(of_stack)) > 1 and set(of_stack) == set(folders.values()):
        return list(of_stack), dict(folders)
    return [r.process.path for r in readings], dict.fromkeys(flights)
