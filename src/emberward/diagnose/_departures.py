"""A cycle of waits: did one rank leave out or add a call, or do the ranks order their calls differently?"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from emberward.diagnose._calls import Call, Departed, GroupName, RankFlight
from emberward.diagnose._graph import OpKey, Root, WaitGraph
from emberward.diagnose._order import MIN_ROUNDS, Newest, follower, newest, rounds
from emberward.diagnose._say import hang_finding, ranks_text, waits
from emberward.findings import Cause, Certainty, Finding, FindingPhase, Kind

MAX_HISTORY = 512
"""Calls of a rank that are searched for its usual order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A rank that left its own or its peers' usual order. `left_out` counts the calls of `group` it did not make."""

    rank: int
    cause: Cause
    call: Call
    group: GroupName
    why: str


def history(flight: RankFlight) -> list[Call]:
    """The rank's kept collectives in the order of issue, the newest `MAX_HISTORY`."""
    calls = [part.as_call(entry) for part in flight.groups.values() for entry in part.entries[-MAX_HISTORY:]]
    calls.sort(key=lambda call: call.record)
    return calls[-MAX_HISTORY:]


def are_alike(left: Call, right: Call) -> bool:
    """Whether two calls are the same operation of one group, type and line; where a line is not known, of one size."""
    if left.group != right.group or left.op != right.op or (None not in (a := left.dtype, b := right.dtype) and a != b):
        return False
    return left.place == right.place if None not in (left.place, right.place) else left.numel == right.numel


def departures(graph: WaitGraph, root: Root) -> list[Departure]:
    """The ranks of a cycle that left the usual order, by their own history; empty when nobody did or all did."""
    found = []
    for rank in root.ranks:
        flight = graph.flights[rank]
        head = flight.head
        if head is None or head.is_p2p:
            continue
        calls = history(flight)
        for op in root.ops:
            if rank in op[1] and op[0] != head.group and rank not in graph.calls.get(op, {}):
                departure = _departure(graph, rank, head, calls, op)
                if departure is not None:
                    found.append(departure)
                    break
    # Where half of them or more left it, it is an order that differs, and nobody is guilty alone.
    return found if len(found) == 1 or 2 * len(found) < len(root.ranks) else []


def _departure(graph: WaitGraph, rank: int, head: Call, calls: list[Call], op: OpKey) -> Departure | None:
    counts = rounds(
        calls, is_mark=lambda each: are_alike(each, head), is_counted=lambda each: each.group == op[0], is_open=False
    )
    # That others wait in such a call is known: one earlier round tells that the rank made them too.
    how = newest(counts, least=1)
    if how is not None:
        if how is Newest.FEWER:
            usual, now = min(counts[:-1]), counts[-1]
            often = usual if usual == max(counts[:-1]) else f"at least {usual}"
            why = (
                f"before each earlier call at {head.site or 'this place'} rank {rank} made {often} of that group, "
                f"this time {now}: {usual - now} left out"
            )
            return Departure(rank=rank, cause=Cause.SKIPPED_COLLECTIVE, call=head, group=op[0], why=why)
        return _overdue(rank, calls, head, next(iter(graph.calls.get(op, {}).values()), None))
    if counts or any(are_alike(call, head) for call in calls[:-1]):
        return None
    waiters = graph.calls.get(op, {})
    if len(waiters) < 2 or not _is_out_of_pattern(graph.flights, rank, head, tuple(waiters)):
        return None
    why = f"neither rank {rank} nor its peers called {head.op} in that group at this line before"
    return Departure(rank=rank, cause=Cause.EXTRA_COLLECTIVE, call=head, group=op[0], why=why)


def _overdue(rank: int, calls: list[Call], head: Call, missing: Call | None) -> Departure | None:
    """The rank, when it calls once more like `head` than it ever did between two calls like the one that it lacks.

    As with a barrier after every sixth step, where each step makes a call of another group.
    """
    if missing is None or are_alike(head, missing):
        return None
    counts = rounds(
        calls,
        is_mark=lambda each: are_alike(each, missing),
        is_counted=lambda each: are_alike(each, head),
        is_open=True,
    )
    # That others wait in the missing call is known too; two rounds that agree tell how far apart its kind is.
    if newest(counts, least=2) is not Newest.MORE or len(set(counts[:-1])) > 1:
        return None
    why = (
        f"rank {rank} made {counts[0]} such calls after each earlier {missing.op} at {missing.site or 'that place'}, "
        f"and now {counts[-1]}: it left out the next {missing.op}"
    )
    return Departure(rank=rank, cause=Cause.SKIPPED_COLLECTIVE, call=head, group=missing.group, why=why)


def _is_out_of_pattern(flights: Mapping[int, RankFlight], rank: int, head: Call, peers: tuple[int, ...]) -> bool:
    """Whether no peer makes a call like the head in its rounds, in a job that has had rounds."""
    own = history(flights[rank])
    if len(own) < 4:
        return False
    peers_calls = [call for peer in peers for call in history(flights[peer])[-64:]]
    rounds = [call for call in peers_calls if call.group == head.group and call.op == head.op]
    return not rounds


def out_of_order(flights: Mapping[int, RankFlight], ranks: Sequence[int]) -> dict[int, Call]:
    """The open calls of the few ranks of a cycle that come in another group than the one that was next for all.

    Whatever their lines: a choice may have lines of its own. Where each rank has groups of its own, all may have turned
    their order, and only some of them begin with another group.
    """
    odd: dict[int, Call] = {}
    expected = set()
    for rank in ranks:
        head = flights[rank].head
        if head is None or head.is_p2p:
            return {}
        past = [(call.op, call.group) for call in history(flights[rank]) if call.record < head.record]
        expected.add(follower(past))
        if (head.op, head.group) not in expected:
            odd[rank] = head
    return odd if len(expected) == 1 and None not in expected and 2 * len(odd) < len(ranks) else {}


def _elsewhere(flights: Mapping[int, RankFlight], rank: int) -> tuple[Call, GroupName, tuple[int, ...]] | None:
    """A rank's call that it made in another group than each time before at its line, that group, and who waits there.

    The open call, or one that met another call in silence. None where it made such calls in several groups, as a loop
    over groups does, or nobody waits in one for it.
    """
    head = flights[rank].head
    if head is None or head.is_p2p:
        return None
    made: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in (*(each for each in history(flights[rank]) if each.record < head.record), head):
        if call.place is not None:
            made[call.op, call.place].append(call)
    for *past, call in made.values():
        groups = {each.group for each in past}
        part = flights[rank].groups.get(next(iter(groups))) if len(groups) == 1 and call.group not in groups else None
        if part is None or (call is not head and len(past) < MIN_ROUNDS):
            continue
        waiting = [
            other
            for other, flight in flights.items()
            if flight.head is not None and are_alike(flight.head, replace(call, group=part.name))
            if flight.head.seq > part.enqueued and (part.ranks is None or other in part.ranks)
        ]
        if waiting:
            return call, part.name, tuple(waiting)
    return None


def elsewhere_finding(graph: WaitGraph, ranks: Sequence[int], evidence: Sequence[str]) -> Finding | None:
    """A finding when one of the ranks made its call in another group than usual, while the usual one waits for it."""
    made = {rank: found for rank in ranks if (found := _elsewhere(graph.flights, rank)) is not None}
    if len(made) != 1:
        return None
    ((rank, (call, usual, waiting)),) = made.items()
    labels = {view.name: view.label for view in graph.groups if rank in view.members}
    return hang_finding(
        "H104",
        f"rank {rank} makes {call.text} at {call.site} in {labels[call.group]}, where {waits(waiting)} for it in "
        f"{labels[usual]}: each time before it made the call there",
        kind=Kind.MISMATCH,
        cause=Cause.DIFFERENT_GROUP,
        ranks=(rank,),
        waiting=waiting,
        site=call.site,
        evidence=evidence,
        ruled_out=("another order of the groups: in no round before did it make this call in that group",),
        next_step=f"read how rank {rank} chooses the group at {call.site}",
    )


def departed(flights: Mapping[int, RankFlight]) -> dict[int, Departed]:
    """The ranks that left their proved order; none where most did: it is not the program's order then."""
    left = {rank: flight.departed for rank, flight in flights.items() if flight.departed is not None}
    return left if 2 * len(left) <= len(flights) else {}


def departed_finding(
    proved: Mapping[int, Departed], ranks: Sequence[int], waiting: Sequence[int], evidence: Sequence[str]
) -> Finding | None:
    """A finding when one of `ranks` is among those of `departed`: each was compared call by call with its role."""
    left = {rank: proved[rank] for rank in sorted(ranks) if rank in proved}
    if not left:
        return None
    culprits, first = list(left), next(iter(left.values()))
    others = sorted({*ranks, *waiting} - left.keys())
    is_skip = first.cause is Cause.SKIPPED_COLLECTIVE
    found = hang_finding(
        "H104",
        f"{ranks_text(culprits)} left the proved order at {first.site or 'a line that is not known'}: "
        f"{first.found}, where {first.expected} was proved; {waits(others)}",
        kind=Kind.MISSING if is_skip else Kind.MISMATCH,
        cause=first.cause,
        certainty=Certainty.OBSERVED,
        ranks=culprits,
        waiting=others,
        site=first.site,
        evidence=evidence,
        ruled_out=("the other ranks: each made the calls that were proved",),
        next_step=f"find what {first.site or 'it'} branches on: it must be the same on every rank",
    )
    return replace(found, phase=FindingPhase(step=first.step, micro_batch=first.micro_batch, stage=first.stage))


def lacking_finding(graph: WaitGraph, root: Root, evidence: Sequence[str]) -> Finding | None:
    """A finding for the one rank of a cycle that left out a call of its own order, by its own recorder's word."""
    lacks = {rank: frame for rank in root.ranks if (frame := graph.flights[rank].lacks) is not None}
    if len(lacks) != 1:
        return None
    ((rank, lacked),) = lacks.items()
    head = graph.flights[rank].head
    waiting = sorted((set(root.ranks) | set(root.victims)) - {rank})
    site, is_p2p = (None, False) if head is None else (head.site, head.is_p2p)
    return hang_finding(
        "H109" if is_p2p else "H104",
        f"rank {rank} is at {site} without the call at {lacked.site}, to which it came first in each earlier "
        f"round; {waits(waiting)}",
        kind=Kind.MISSING,
        cause=Cause.UNMATCHED_P2P if is_p2p else Cause.SKIPPED_COLLECTIVE,
        ranks=(rank,),
        waiting=waiting,
        site=site,
        evidence=evidence,
        ruled_out=("the other ranks of the cycle: each is where its order leads",),
        next_step=f"read the way from {lacked.site} to {site}: it went another one on rank {rank}",
    )
