"""A call that meets another one: was it made instead, was the other left out, or is it one too many?

By the order that is known (`_order`) and by the text. Left out, when the program comes to the peers' call first, when
in the rank's own earlier rounds just this call followed it, or when fewer of its kind came before this call than in
each earlier round and the program has a way past it. One too many, when there is no such way, so that it came before
its turn, or when nobody made it before, the peers' call is a usual one, and the text shows no choice between the two: a
program that goes on makes the usual one after it. Else it was made instead.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise, permutations

from emberward.diagnose._calls import Call, GroupName, RankFlight
from emberward.diagnose._claims import MEET_AND_DIFFER
from emberward.diagnose._departures import are_alike, history
from emberward.diagnose._frames import Frame, LineOf, no_source, user_frame
from emberward.diagnose._groups import Groups
from emberward.diagnose._mismatch import mismatches
from emberward.diagnose._order import MIN_ROUNDS, Standing, came_early, has_followed, only_in, rounds, standing
from emberward.diagnose._parting import (
    comes_first_by_lines,
    common_function,
    is_dispatched,
    kept_away,
    left_the_loop,
    parting,
    passed_at,
)
from emberward.diagnose._program import are_at_one_place, are_branches, callers_in_common, comes_first, place_at
from emberward.diagnose._say import ranks_text, verb
from emberward.diagnose._source import conditions_around, tie_break_by_text
from emberward.diagnose._trace import PARTED
from emberward.findings import Cause, Finding, Kind

MAX_COMPARED = 16
"""Most peers whose earlier calls are looked through."""


def _met(finding: Finding, flights: Mapping[int, RankFlight]) -> tuple[Call, Call, int] | None:
    """The call of the culprit that met another one, that one, and whose it is; None when none did.

    The first ones that have ended, as gloo lets them; else the culprit's last: an open one as a rule, and one whose
    rank raised in it has ended too.
    """
    flight = flights.get(finding.culprit_ranks[0])
    ours = None if flight is None else _last(flight)
    if flight is None or ours is None:
        return None
    made = {(call.group, call.seq): call for call in history(flight)}
    for rank in finding.waiting_ranks[:1]:
        for theirs in history(flights[rank]) if rank in flights else ():
            met = made.get((theirs.group, theirs.seq))
            if met is not None and must_agree(theirs) != must_agree(met):
                return met, theirs, rank
    for rank in finding.waiting_ranks:
        part = None if rank not in flights else flights[rank].groups.get(ours.group)
        other = None if part is None else part.call(ours.seq)
        if other is not None and must_agree(other) != must_agree(ours):
            return ours, other, rank
    return None


def must_agree(call: Call) -> tuple[object, ...]:
    """What has to be alike where calls meet: of a call that sends each peer a part of its own no size."""
    return call.op, None if call.op in PARTED else call.numel, call.dtype


def _last(flight: RankFlight) -> Call | None:
    """The open call, else the newest; None when that is a send or receive, or there is none."""
    if flight.head is not None:
        return None if flight.head.is_p2p else flight.head
    calls = history(flight)
    return calls[-1] if calls else None


def _is_usual(flight: RankFlight, head: Call, other: Call | None) -> bool | None:
    """Whether the rank made this call after the one before it in earlier rounds too; None without earlier rounds.

    A call of another type at the same line is another call; sizes may differ from round to round. One before its turn,
    where `other` was due, is none of them.
    """
    past = [call for call in history(flight) if call.record < head.record and call.group == head.group]
    if len(past) < MIN_ROUNDS:
        return None

    def is_same(call: Call, like: Call) -> bool:
        return are_alike(call, like) and (like is not head or call.dtype == head.dtype)

    is_early = other is not None and came_early(head, other, past, are_alike=are_alike)
    return not is_early and has_followed(past, past[-1], head, are_alike=is_same)


def _past_meeting(flights: Mapping[int, RankFlight]) -> dict[tuple[object, int], dict[int, Call]]:
    """The first calls that met, completed, and differ in type: gloo lets types of one size meet in silence.

    Ranks whose calls are all alike hold the same types: one of each group speaks for them.
    """
    unlike = {rank: f for rank, f in flights.items() if not all(part.is_alike for part in f.groups.values())}
    names = {name for flight in unlike.values() for name in flight.groups}
    for rank, flight in flights.items():
        if names & flight.groups.keys():
            unlike.setdefault(rank, flight)
            names -= flight.groups.keys()
    met: dict[tuple[object, int], dict[int, Call]] = defaultdict(dict)
    for rank, flight in unlike.items():
        for call in history(flight):
            met[(call.group, call.seq)][rank] = call
    differ = [key for key, calls in met.items() if len({call.dtype for call in calls.values()}) > 1]
    first = min(differ, key=lambda key: key[1], default=None)
    if first is None:
        return {}
    found = met[first]
    for rank, flight in flights.items():
        part = flight.groups.get(found[next(iter(found))].group)
        if rank not in unlike and part is not None and (alike := part.call(first[1])) is not None:
            found[rank] = alike
    return {first: found}


def _usual_by_rank(flights: Mapping[int, RankFlight], calls: Mapping[int, Call]) -> dict[int, bool | None]:
    """Of each rank whether its call is usual; of many that make the same, `MAX_COMPARED` agree and speak for all."""
    sides: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for rank, call in calls.items():
        sides[(call.op, call.numel, call.dtype, call.place)].append(rank)
    out: dict[int, bool | None] = {}
    for side, ranks in sides.items():
        other = next((calls[rest[0]] for each, rest in sides.items() if each != side), None)
        seen = {rank: _is_usual(flights[rank], calls[rank], other) for rank in ranks[:MAX_COMPARED]}
        rest = next(iter(seen.values())) if len(set(seen.values())) == 1 else None
        out |= {**dict.fromkeys(ranks, rest), **seen}
    return out


def untied(finding: Finding, flights: Mapping[int, RankFlight]) -> Finding:
    """The finding with a culprit, where two sides differ, none is the majority, and one alone left its usual order."""
    if finding.code not in ("M101", "M102") or finding.culprit_ranks or finding.cycle is not None:
        return finding
    meetings: dict[tuple[object, int], dict[int, Call]] = defaultdict(dict)
    for rank, flight in flights.items():
        if flight.head is not None and not flight.head.is_p2p:
            meetings[(flight.head.group, flight.head.seq)][rank] = flight.head
    meetings |= _past_meeting(flights)
    for calls in meetings.values():
        if len(set(map(must_agree, calls.values()))) < 2:
            continue
        usual = _usual_by_rank(flights, calls)
        odd = [rank for rank, is_usual in usual.items() if is_usual is False]
        rest = [rank for rank, is_usual in usual.items() if is_usual is True]
        if odd and rest and None not in usual.values():
            line = (
                f"{ranks_text(odd)} left {verb(odd, 'its', 'their')} usual order of calls, {ranks_text(rest)} did not"
            )
            return replace(
                finding,
                culprit_ranks=tuple(sorted(odd)),
                waiting_ranks=tuple(sorted(rest)),
                site=calls[odd[0]].site,
                evidence=(*finding.evidence, line),
            )
        if (alone := _alone(finding, flights, calls)) is not None:
            return alone
    return finding


def _alone(finding: Finding, flights: Mapping[int, RankFlight], calls: Mapping[int, Call]) -> Finding | None:
    """The finding with the side as the culprit that made calls at a line to which the other side never came."""
    sides: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for rank, call in calls.items():
        sides[must_agree(call)].append(rank)
    at = [frame for call in calls.values() if (frame := user_frame(call.frames)) is not None]
    for ranks, others in permutations(sides.values()) if len(sides) == 2 else ():
        here, there = flights[ranks[0]], flights[others[0]]
        found = only_in(here.been_at, there.been_at, ever=(here.ever_at, there.ever_at), without=at)
        if found is not None:
            line = f"{ranks_text(ranks)} made calls at {found.site}, to which {ranks_text(others)} never came"
            return replace(
                finding,
                cause=Cause.EXTRA_COLLECTIVE,
                culprit_ranks=tuple(sorted(ranks)),
                waiting_ranks=tuple(sorted(others)),
                site=found.site,
                evidence=(*finding.evidence, line),
            )
    return None


def told_apart(
    flights: Mapping[int, RankFlight], groups: Groups, world_size: int, line_of: LineOf
) -> Iterator[tuple[GroupName, Finding]]:
    """Yields (group, finding) where calls meet and differ. Without a majority the ranks' own past tells the odd side,
    and where that does not, the text.
    """
    by_text: dict[GroupName, Finding] = {}
    for name, tied in mismatches(flights, groups, world_size):
        finding = untied(tied, flights)
        if not finding.culprit_ranks and not by_text:
            broken = mismatches(flights, groups, world_size, tie_break=tie_break_by_text(line_of))
            by_text = dict(reversed(list(broken)))
        yield name, finding if finding.culprit_ranks else by_text.get(name, finding)


def _stack(rank: int, call: Call, frames: Mapping[int, tuple[Frame, ...]]) -> tuple[Frame, ...]:
    """Where the rank made the call: its stack, unless it waits elsewhere for one that it made before."""
    stack = frames.get(rank, ())
    is_there = call.site is None or call.site in {frame.site for frame in stack}
    return stack if stack and is_there else call.frames


def _waiter(finding: Finding, call: Call, maker: int, frames: Mapping[int, tuple[Frame, ...]]) -> tuple[Frame, ...]:
    """The stack of a waiting rank that makes `call`, as `maker` does: by the line that both tell, where one does."""
    if call.site is None:
        return frames.get(maker, ())
    for rank in finding.waiting_ranks:
        frame = user_frame(frames.get(rank, ()))
        if frame is not None and frame.site == call.site:
            return frames[rank]
    return call.frames


def _site_of(call: Call, stack: tuple[Frame, ...]) -> str | None:
    """The line of a call; where the recorder keeps none, that of the stack of its rank."""
    frame = user_frame(stack)
    return call.site if call.site is not None or frame is None else frame.site


def _at(site: str | None) -> str:
    return "" if site is None else f" at {site}"


def _read(site: str | None, what: str) -> str:
    if site is None:
        return "explain the stacks of the same moment too (py-spy dump): the dumps keep no line of the program"
    return f"read the condition around {site}: {what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """The culprit's call and the one that it meets, the stacks of both, and where the culprit was before.

    `past`: its earlier calls of the group; `others`: those that it and its peers made there at other places.
    `is_lacking`: its own recorder tells that it came to their line in each earlier round.
    """

    ours: Call
    theirs: Call
    here: tuple[Frame, ...]
    there: tuple[Frame, ...]
    before: tuple[Frame, ...]
    past: Sequence[Call]
    others: Sequence[Call]
    is_lacking: bool


class Way(StrEnum):
    """How the culprit left the order, where that is known."""

    LEFT_OUT = "left_out"
    EARLY = "early"
    """Made before the peers' call, after which it has its turn, if it has one."""
    ONE_MORE = "one_more"
    """Made by nobody before."""
    INSTEAD = "instead"


def meeting_of(
    finding: Finding, flights: Mapping[int, RankFlight], frames: Mapping[int, tuple[Frame, ...]], line_of: LineOf
) -> Meeting | None:
    """The meeting that a finding tells of; None where no collectives meet, or nobody is the culprit."""
    is_one_more = finding.cause is Cause.EXTRA_COLLECTIVE
    is_open = finding.kind is Kind.MISMATCH and not is_one_more
    if finding.code not in MEET_AND_DIFFER or not finding.culprit_ranks or not is_open:
        return None
    met = _met(finding, flights)
    if met is None:
        return None
    ours, theirs, maker = met
    flight = flights[finding.culprit_ranks[0]]
    first = _first_departure(flight, flights[maker], ours.group)
    is_before = first is not None and first[0].seq < ours.seq
    if first is not None and is_before and (_is_silent(*first) or place_at(user_frame(ours.frames), line_of) is None):
        ours, theirs = first
    past = [call for call in history(flight) if call.record < ours.record and call.group == ours.group]
    peers = [flights[rank] for rank in finding.waiting_ranks[:MAX_COMPARED] if rank in flights]
    made = [call for each in peers for call in history(each) if call.group == ours.group and call.seq != ours.seq]
    before = flight.before or (past[-1].frames if past else ())
    # The newest that no peer ever made belong to the culprit's departure, and are no past of its order.
    while past and made and not any(are_alike(call, past[-1]) for call in made):
        past.pop()
    return Meeting(
        ours=ours,
        theirs=theirs,
        here=_stack(finding.culprit_ranks[0], ours, frames),
        there=_waiter(finding, theirs, maker, frames),
        before=before,
        past=past,
        others=[*past, *made],
        is_lacking=flight.lacks is not None and flight.lacks.site == theirs.site,
    )


def _is_silent(ours: Call, theirs: Call) -> bool:
    """Whether two calls that met agree in all that must: nobody noticed."""
    return must_agree(ours) == must_agree(theirs)


def _first_departure(odd: RankFlight, peer: RankFlight, group: GroupName) -> tuple[Call, Call] | None:
    """The first two calls of a group that met and came from other ways through the program; None where all before the
    newest of either did, or too few came from the same ones.

    Calls of one operation and size meet in silence: what differs in the end departed here.
    """
    parts = [each.groups.get(group) for each in (odd, peer)]
    calls = [{} if part is None else {e["collective_seq_id"]: part.as_call(e) for e in part.entries} for part in parts]
    common = sorted(calls[0].keys() & calls[1].keys())
    pairs = [(calls[0][seq], calls[1][seq]) for seq in common]
    place = next((n for n, (a, b) in enumerate(pairs) if (a.op, a.frames) != (b.op, b.frames)), None)
    return None if place is None or place < MIN_ROUNDS else pairs[place]


def is_other_size(met: Meeting, line_of: LineOf) -> bool:
    """Whether the culprit came to the peers' call on their way, all lines alike, with a size that is new there: its
    tensor is another one, and it left no order.
    """
    ours, theirs = met.ours, met.theirs
    known = {call.numel for call in met.past if are_at_one_place(call.frames, ours.frames, line_of)}
    is_way = ours.op == theirs.op and are_at_one_place(ours.frames, theirs.frames, line_of)
    return is_way and theirs.numel in known and ours.numel not in known


def is_once_a_round(met: Meeting) -> bool:
    """Whether one call like the peers' came before each earlier call like the culprit's: no loop makes many of them."""
    counts = rounds(
        [*met.past, met.ours],
        is_mark=lambda call: are_alike(call, met.ours),
        is_counted=lambda call: are_alike(call, met.theirs),
        is_open=False,
    )
    return len(counts) > MIN_ROUNDS and set(counts[:-1]) == {1}


def way_of(met: Meeting, line_of: LineOf) -> Way | None:
    """How the culprit left the order, by the text and by what it and its peers made before; None when unclear."""
    ours, theirs, past, stacks = met.ours, met.theirs, met.past, (met.here, met.there)
    if _is_silent(ours, theirs):
        # Far behind the call in which the rank is now: whole stacks tell, as where no text is at hand.
        line_of = no_source
    branches = _are_branches(*stacks, line_of)
    if branches is True:
        return Way.INSTEAD
    # Where no line tells, a call of another type is another call; one of which no line is known may be any.
    known = [c for c in met.others if c.place is not None or (ours.site is None and c.dtype == ours.dtype)]
    # A program that has made no call yet comes to the upper of two lines first.
    is_first = comes_first(met.before, *stacks, line_of) if met.before or past else _is_before(*stacks, line_of)
    stands = standing(ours, theirs, past, known, are_alike=are_alike)
    is_early = came_early(ours, theirs, past, are_alike=are_alike)
    has_text, is_end = place_at(user_frame(met.here), line_of) is not None, False
    if not has_text and past:
        is_first, is_end = comes_first_by_lines(past[-1].frames, ours.frames, theirs.frames)
        if is_end and ours.op != theirs.op and (ours.numel, ours.dtype) == (theirs.numel, theirs.dtype):
            # Of one size and type, the calls may be two ways to exchange the same tensor.
            return None
        if is_end and all(call.frames != ours.frames for call in past):
            # Behind what a turn makes, on a way of its own: the call of a function that others call elsewhere.
            stands, is_early = Standing.NEW, False
    ways, own_ways = passed_at(*stacks, line_of), passed_at(*stacks[::-1], line_of)
    if stands is Standing.NEW and own_ways and not is_early and left_the_loop(*stacks, line_of) is not None:
        # Behind a loop in which the others are again, at a choice of its own.
        return Way.EARLY
    if is_first:
        # It comes to its own call first; that may be the one of a later turn, after one without theirs. An error that
        # was caught is a way past theirs only where no other choice leads to its own call.
        has_choice = any(way not in (ways or ()) for way in own_ways or ())
        may_pass = bool(ways) and (not has_choice or bool(kept_away(*stacks, line_of)))
        is_left_out = may_pass and (is_early or (stands is Standing.NEW and own_ways == []))
    elif is_first is None and stands is Standing.NEW and ways and own_ways == [] and not _is_before(*stacks, line_of):
        # In the first round, each comes to its own call.
        is_left_out = True
    elif is_first is None and is_early:
        is_left_out = ways != [] or not own_ways or left_the_loop(*stacks, line_of) is not None
    else:
        # The text tells what comes next from where the rank was; of history only what once followed what.
        is_left_out = is_first is False or stands is Standing.AHEAD
    if is_left_out:
        return Way.LEFT_OUT
    # What torch calls below Python, as DDP's reducer does, stands in no branch of the program.
    is_no_choice = branches is False or theirs.site is None
    is_next = is_no_choice and bool(past) and has_followed(past, past[-1], theirs, are_alike=are_alike)
    # Where the text is at hand a choice between the two calls would show; two turns make no choice.
    is_usual = (has_text or is_end) and _is_usual_elsewhere(theirs, ours, met.others)
    is_new = stands is Standing.NEW and (is_next or is_usual or (branches is False and _is_before(*stacks, line_of)))
    if is_first or is_early:
        return Way.EARLY
    if is_new or _came_another_way(ours, theirs, past, met.here, line_of):
        return Way.ONE_MORE
    return Way.LEFT_OUT if met.is_lacking else None


def decided(
    finding: Finding, here: tuple[Frame, ...], there: tuple[Frame, ...], line_of: LineOf, *, what: str
) -> Finding:
    """The finding, at the last line at which the culprit may have decided not to come to `there`, where text has it."""
    lines = [frame for frame in kept_away(here, there, line_of) if not frame.is_library]
    if not lines:
        return finding
    line = f"{what} at {lines[-1].site}, the last choice on the way to the call that it lacks"
    return replace(finding, site=lines[-1].site, evidence=(*finding.evidence, line))


def left_out(finding: Finding, met: Meeting, line_of: LineOf) -> Finding:
    """The finding, as a call that the culprit left out: at the last line at which it may have decided so."""
    ranks, here, there = finding.culprit_ranks, _site_of(met.ours, met.here), _site_of(met.theirs, met.there)
    return decided(
        replace(
            finding,
            kind=Kind.MISSING,
            cause=Cause.SKIPPED_COLLECTIVE,
            site=here,
            message=f"{ranks_text(ranks)} left out {met.theirs.text}{_at(there)} and {verb(ranks, 'is', 'are')} in "
            f"the call that follows it, {met.ours.text}{_at(here)}",
            evidence=(finding.message, *finding.evidence),
            next=_read(there, f"it does not hold on {ranks_text(ranks)}"),
        ),
        met.here,
        met.there,
        line_of,
        what=f"{ranks_text(ranks)} went another way",
    )


def one_more(finding: Finding, met: Meeting) -> Finding:
    """The finding, as a call that the culprit makes alone."""
    ours, theirs, ranks = met.ours, met.theirs, finding.culprit_ranks
    here, there = _site_of(ours, met.here), _site_of(theirs, met.there)
    is_known = any(are_alike(call, ours) for call in met.past)
    return replace(
        finding,
        cause=Cause.EXTRA_COLLECTIVE,
        site=here,
        message=f"{ranks_text(ranks)} {verb(ranks, 'makes', 'make')} a call "
        f"{'before its turn' if is_known else 'that no other rank makes'}, {ours.text}"
        f"{_at(here)}, before the next one{f', {theirs.text}' if theirs.site in (None, ours.site) else _at(there)}",
        evidence=(finding.message, *finding.evidence),
        next=_read(here, f"it holds on {ranks_text(ranks)} alone"),
    )


def _is_usual_elsewhere(theirs: Call, ours: Call, others: Sequence[Call]) -> bool:
    """Whether the peers' call is a usual one at a line of its own, and not ours with another type."""
    is_same = (ours.op, ours.numel, ours.frames[2:]) == (theirs.op, theirs.numel, theirs.frames[2:])
    if ours.place in (None, theirs.place) or is_same:
        return False
    return sum(are_alike(call, theirs) for call in others) >= MIN_ROUNDS


def _came_another_way(
    ours: Call, theirs: Call, past: Sequence[Call], stack: tuple[Frame, ...], line_of: LineOf
) -> bool:
    """Whether one line of a function that is called at several was come to under a condition, with a size new there.

    While what its peers make at that line is what as a rule came next: theirs is the usual call, and ours one more.
    """

    def form(call: Call) -> tuple[object, ...]:
        return call.op, call.numel, call.dtype, call.place

    after = [form(late) for early, late in pairwise(past) if form(early) == form(past[-1])]
    if ours.place is None or form(ours)[::3] != form(theirs)[::3] or form(ours) in map(form, past):
        return False
    if len(after) < MIN_ROUNDS or 2 * after.count(form(theirs)) <= len(after):
        return False
    users = [frame for frame in stack if not frame.is_library and frame.line is not None]
    places = [place_at(frame, line_of) for frame in users[1:]]
    return any(conditions_around(place) for place in places if place is not None)


def _parted(ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf) -> tuple[Frame, Frame] | None:
    """The lines of one function from which two places are reached."""
    return parting(ours, theirs) or common_function(ours, theirs) or callers_in_common(ours, theirs, line_of)


def _is_before(ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf) -> bool | None:
    """Whether our line comes before theirs in one function; both are to be made then, where they are no choice."""
    parted = _parted(ours, theirs, line_of)
    return None if parted is None else (parted[0].line or 0) < (parted[1].line or 0)


def _are_branches(ours: tuple[Frame, ...], theirs: tuple[Frame, ...], line_of: LineOf) -> bool | None:
    """Whether the two lines are the branches of one choice, of which a round makes one; None when no text tells."""
    if is_dispatched(ours, theirs, line_of):
        return True
    parted = _parted(ours, theirs, line_of)
    if parted is None:
        return None
    left, right = (place_at(frame, line_of) for frame in parted)
    return None if left is None or right is None else are_branches(left, right)
