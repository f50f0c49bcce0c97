"""The cheapest single change that makes a stopped trace pass. Only changes that the judge has run are ever named."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from emberward.events import Acquire, Barrier, Collective, Compute, Event, Lane, LaneKind, Recv, Send, StoreSet
from emberward.match._align import DepartureKind
from emberward.match._edit import Item, items_of, program_of
from emberward.match._fault import CallFault
from emberward.match._table import Table
from emberward.match._verdict import Cure, EditKind
from emberward.match._waits import Head, WaitEdge
from emberward.match._words import brief_text, op_text, phase_text, plural, ranks_text

MAX_CANDIDATES = 32
"""Most changes that are tried for one verdict."""
MAX_JUDGED_EVENTS = 400_000
"""Most events that are simulated while changes are tried, beyond the first change."""
MAX_DISTANCE = 16
"""Most ops of a lane across which a call is moved forward."""

_CALLS = (Send, Recv, Collective, Barrier, StoreSet)


class Subject(Protocol):
    """Something whose programs can be edited and judged again: a trace, or the roles of one."""

    def program(self, rank: int) -> tuple[Event, ...]:
        """The program of `rank`."""

    def stands_for_itself(self, rank: int) -> bool:
        """Whether calls of other ranks can be put into the program of `rank` as they are."""

    def edited(self, programs: Mapping[int, tuple[Event, ...]], raised_credit: tuple[int, str] | None) -> "Subject":
        """The same with other programs, and with one more unit of a credit on one rank."""

    def table(self) -> Table:
        """The subject compiled."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cure that was not tried yet."""

    cure: Cure
    programs: dict[int, tuple[Event, ...]]
    raised_credit: tuple[int, str] | None = None


def first_cure(
    candidates: Iterator[Candidate], subject: Subject, passes: Callable[[Subject], bool], num_events: int
) -> Cure | None:
    """The first candidate that `passes`, within MAX_CANDIDATES and MAX_JUDGED_EVENTS; None when there is none."""
    limit = min(MAX_CANDIDATES, max(1, MAX_JUDGED_EVENTS // max(1, num_events)))
    for _, candidate in zip(range(limit), candidates, strict=False):
        if passes(subject.edited(candidate.programs, candidate.raised_credit)):
            return candidate.cure
    return None


def cycle_candidates(table: Table, cycle: Sequence[tuple[Head, WaitEdge]], subject: Subject) -> Iterator[Candidate]:
    """Yields changes that could open `cycle`: swaps, then batches, then lanes, then credits."""
    places = []
    for i, ((rank, e), _) in enumerate(cycle):
        edge = cycle[i - 1][1]
        if edge.awaited != edge.head and edge.head == e:
            places.append((rank, e, edge.awaited))
    for rank, head, awaited in places:
        yield from _swap(table, rank, head, awaited, subject)
    for rank, head, awaited in places:
        yield from _batch(table, rank, head, awaited, subject)
    for rank, head, awaited in places:
        yield from _own_lane(table, rank, head, awaited, subject)
    for (rank, e), _ in cycle:
        body = table.events[e].body
        if isinstance(body, Acquire):
            credit = table.credits[table.arg[e]]
            text = f"raise credit {body.credit} of rank {rank} from {credit.capacity} to {credit.capacity + 1}"
            cure = Cure(kind=EditKind.RAISE_CREDIT, ranks=(rank,), text=text)
            yield Candidate(cure, {}, (rank, body.credit))


def _short(event: Event) -> str:
    phase = phase_text(event.phase)
    return f"{brief_text(event)} ({phase})" if phase else brief_text(event)


def _between(table: Table, head: int, awaited: int) -> list[int] | None:
    """The events of the lane from `head` to `awaited`, both included; None when they lie too far apart."""
    first, last = table.unit[head], table.unit[awaited]
    found: list[int] = []
    unit = last
    for _ in range(MAX_DISTANCE + 1):
        found = [*table.unit_events[unit], *found]
        if unit == first:
            return found
        unit = table.unit_before[unit]
        if unit < 0:
            return None
    return None


def _forwards(mover: Event, passed: Sequence[Event]) -> bool:
    """Whether `mover` sends on a tensor that one of `passed` receives, so that it may not go before it."""
    if not isinstance(mover.body, Send) or mover.body.tensor is None:
        return False
    return any(isinstance(other.body, Recv) and other.body.tensor == mover.body.tensor for other in passed)


def _swap(table: Table, rank: int, head: int, awaited: int, subject: Subject) -> Iterator[Candidate]:
    lane = _between(table, head, awaited)
    if lane is None or not all(isinstance(table.events[e].body, _CALLS) for e in lane):
        return
    movers = [table.events[e] for e in table.unit_events[table.unit[awaited]]]
    passed = [table.events[e] for e in lane if table.events[e] not in movers]
    if any(_forwards(mover, passed) for mover in movers):
        return
    items = items_of(subject.program(rank))
    moving = [item for item in items if item.event in movers]
    rest = [item for item in items if item.event not in movers]
    first = min(i for i, item in enumerate(rest) if item.event in passed)
    order = rest[:first] + moving + rest[first:]
    text = f"rank {rank}: {_short(table.at(rank, awaited))} before {_short(table.at(rank, head))}"
    yield Candidate(Cure(kind=EditKind.SWAP, ranks=(rank,), text=text), {rank: program_of(order, rank)})


def _batch(table: Table, rank: int, head: int, awaited: int, subject: Subject) -> Iterator[Candidate]:
    lane = _between(table, head, awaited)
    if lane is None or not all(isinstance(table.events[e].body, Send | Recv) for e in lane):
        return
    program = subject.program(rank)
    used = [event.body.batch for event in program if isinstance(event.body, Send | Recv)]
    fresh = max((batch for batch in used if batch is not None), default=-1) + 1
    chosen = [table.events[e] for e in lane]
    items = []
    for item in items_of(program):
        body = item.body
        if item.event in chosen and isinstance(body, Send | Recv):
            item = replace(item, body=replace(body, batch=fresh))
        items.append(item)
    text = f"rank {rank}: issue {_short(table.at(rank, head))} and {_short(table.at(rank, awaited))} as one batch"
    yield Candidate(Cure(kind=EditKind.BATCH, ranks=(rank,), text=text), {rank: program_of(items, rank)})


def _own_lane(table: Table, rank: int, head: int, awaited: int, subject: Subject) -> Iterator[Candidate]:
    """Moves all ops of the awaited one's name off the lane: the op of one micro-batch alone would stop at the next.

    Only ops that name their inputs in `after`: others may need what their old lane did before them.
    """
    del head
    event = table.events[awaited]
    if event.lane.kind is LaneKind.HOST or not isinstance(event.body, Compute | Acquire) or not event.after:
        return
    program = subject.program(rank)
    same = event.lane.kind
    index = max(other.lane.index for other in program if other.lane.kind is same) + 1
    lane = Lane(kind=same, index=index, label=f"{op_text(event)} lane")
    items = [
        replace(item, lane=lane) if item.event.lane == event.lane and item.body == event.body else item
        for item in items_of(program)
    ]
    text = f"rank {rank}: give {op_text(event)} a lane of its own, off lane {event.lane}"
    yield Candidate(Cure(kind=EditKind.OWN_LANE, ranks=(rank,), text=text), {rank: program_of(items, rank)})


def fault_candidates(table: Table, fault: CallFault, subject: Subject) -> Iterator[Candidate]:
    """Yields the change that gives the odd ranks the others' calls; none where no majority tells who is odd."""
    if fault.is_tied or fault.is_open_end or not all(map(subject.stands_for_itself, fault.odd_ranks)):
        return
    meeting, departure = table.meetings[fault.meeting], fault.departure
    parties = {rank: party for rank, party in meeting.members if party is not None}
    reference = meeting.calls[fault.reference_party][departure.index : departure.index + departure.count]
    programs: dict[int, tuple[Event, ...]] = {}
    for rank in fault.odd_ranks:
        own = [table.events[e] for e in meeting.calls[parties[rank]]]
        here = own[departure.index : departure.index + departure.count]
        items = items_of(subject.program(rank))
        match departure.kind:
            case DepartureKind.EXTRA:
                items = [item for item in items if item.event not in here]
            case DepartureKind.MISSING:
                added = [table.at(fault.other_ranks[0], e) for e in reference]
                new = [Item(event=event, lane=event.lane, body=event.body, is_new=True) for event in added]
                following = own[departure.index] if departure.index < len(own) else None
                at = next((i for i, item in enumerate(items) if item.event == following), len(items))
                items = items[:at] + new + items[at:]
            case DepartureKind.DIFFERENT:
                body = table.at(fault.other_ranks[0], reference[0]).body
                items = [replace(item, body=body) if item.event == here[0] else item for item in items]
        programs[rank] = program_of(items, rank)
    who = ranks_text(fault.odd_ranks)
    count = plural(departure.count, "call")
    match departure.kind:
        case DepartureKind.EXTRA:
            kind, text = EditKind.REMOVE_CALL, f"{who}: remove the {count} of {meeting.group}"
        case DepartureKind.MISSING:
            kind, text = EditKind.ADD_CALL, f"{who}: add the {count} of {meeting.group}"
        case DepartureKind.DIFFERENT:
            kind, text = (
                EditKind.SAME_CALL,
                f"{who}: call {op_text(table.at(fault.other_ranks[0], reference[0]))} here too",
            )
    yield Candidate(Cure(kind=kind, ranks=fault.odd_ranks, text=text), programs)
