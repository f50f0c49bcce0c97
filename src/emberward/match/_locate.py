"""Where a fault of a group began and who departs, by what the two sides executed and by their lines' earlier calls."""

from collections.abc import Mapping
from dataclasses import replace

from emberward.findings import Cause
from emberward.match._align import Departure, DepartureKind, first_difference
from emberward.match._divergence import Alignment, departing_side, first_unbalanced
from emberward.match._fault import CallFault, OddSide, signature
from emberward.match._flow import Executed
from emberward.match._table import Party, Table
from emberward.match._words import ranks_text


def located(table: Table, fault: CallFault, flows: Mapping[int, Executed]) -> CallFault | None:
    """The fault at the place where the two sides' control flow parts, with its odd side; None where it does not.

    Of like calls in a row the numbers do not tell which one a side left out; what it executed does.
    """
    meeting = table.meetings[fault.meeting]
    parties = (fault.odd_party, fault.reference_party)
    ranks = (table.linker.rank_of(parties[0][0]), table.linker.rank_of(parties[1][0]))
    if not table.is_plain or any(rank not in flows for rank in ranks):
        return None
    calls = [meeting.calls[party] for party in parties]
    starts = [table.node_events[party[0]].start for party in parties]
    ops = [{e - start: signature(table.events[e])[0] for e in own} for own, start in zip(calls, starts, strict=True)]
    signatures = [[signature(table.events[e]) for e in own] for own in calls]
    alignment = Alignment(ops[0].get, ops[1].get)
    programs = (flows[ranks[0]].program, flows[ranks[1]].program)
    alignment.frames(*programs)
    found = first_unbalanced(alignment.found, first_difference(*signatures) or 0)
    if found is None or len(found.calls[0]) == len(found.calls[1]):
        return _unusual(table, fault, parties)

    departing = departing_side(found, ranks, (ops[0].get, ops[1].get), programs)
    side = departing.side if fault.is_tied else 0
    is_more = len(found.calls[side]) > len(found.calls[1 - side])
    cause = Cause.EXTRA_COLLECTIVE if is_more else Cause.SKIPPED_COLLECTIVE
    cause = Cause.UNEVEN_DATA if found.decision.is_loop else cause
    departure = Departure(
        DepartureKind.EXTRA if is_more else DepartureKind.MISSING,
        found.before[side],
        abs(len(found.calls[0]) - len(found.calls[1])),
    )
    site = departing.site if departing.side == side else str(found.decision)
    why = departing.why if departing.side == side else f"the ranks go different ways at {found.decision}"
    sides = (fault.odd_ranks, fault.other_ranks)
    return replace(
        fault,
        departure=departure,
        odd_ranks=sides[side],
        other_ranks=sides[1 - side],
        odd_party=parties[side],
        reference_party=parties[1 - side],
        is_tied=False,
        broken_by=OddSide(side == 0, cause, why, site),
    )


def _unusual(table: Table, fault: CallFault, parties: tuple[Party, Party]) -> CallFault | None:
    """The fault with the side as the odd one whose call is not as its line made it before, where the other's is."""
    if not fault.is_tied or fault.departure.kind is not DepartureKind.DIFFERENT:
        return None
    index, meeting = fault.departure.index, table.meetings[fault.meeting]
    events = [table.events[meeting.calls[party][index]] for party in parties]
    usual = []
    for event in events:
        before = (table.events[e] for party in parties for e in meeting.calls[party][:index])
        seen = {signature(other) for other in before if event.site is not None and other.site == event.site}
        usual.append(signature(event) in seen if seen else None)
    if sorted(usual, key=str) != [False, True]:
        return None
    side = usual.index(False)
    sides = (fault.odd_ranks, fault.other_ranks)
    cause = Cause.UNKNOWN
    why = f"{events[side].site} made other calls before, as {ranks_text(sides[1 - side])} still does"
    return replace(
        fault,
        odd_ranks=sides[side],
        other_ranks=sides[1 - side],
        odd_party=parties[side],
        reference_party=parties[1 - side],
        is_tied=False,
        broken_by=OddSide(side == 0, cause, why),
    )
