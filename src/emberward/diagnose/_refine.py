"""Tells causes apart that look alike to calls and stacks, with the program's text: see [Note: text as evidence]."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from emberward.diagnose._calls import RankFlight
from emberward.diagnose._departures import are_alike
from emberward.diagnose._frames import Frame, LineOf, user_frame
from emberward.diagnose._handlers import handler_around, tries_lock
from emberward.diagnose._order import has_begun_more, is_out_of_data
from emberward.diagnose._parting import left_the_loop, passed_at, swallowed_at
from emberward.diagnose._program import is_by_choice, led_past, place_at
from emberward.diagnose._say import ranks_text, verb
from emberward.diagnose._transfers import made_no_transfer
from emberward.diagnose._usual import (
    Meeting,
    Way,
    decided,
    is_once_a_round,
    is_other_size,
    left_out,
    meeting_of,
    one_more,
    way_of,
)
from emberward.diagnose._waits import Reading
from emberward.findings import Cause, Finding, Kind

_UNCLEAR = frozenset(
    {
        Cause.DIFFERENT_OP,
        Cause.SKIPPED_COLLECTIVE,
        Cause.EXTRA_COLLECTIVE,
        Cause.SHAPE,
        Cause.DTYPE,
        Cause.UNKNOWN,
        Cause.LOCK,
        Cause.SLEEP,
        Cause.STORE_WAIT,
        Cause.UNMATCHED_P2P,
    }
)
_CODES = frozenset({"H101", "H104", "H106", "M101", "M102", "M103"})
MAX_WAITERS = 4
"""Most waiting ranks whose stacks are compared with the culprit's."""
MAX_EXITS = 3
"""Most lines that may lead past a call which are named."""


def frames_by_rank(flights: Mapping[int, RankFlight], readings: Mapping[int, Reading]) -> dict[int, tuple[Frame, ...]]:
    """Where each rank is: its stack, else the stack that its oldest open call was made from."""
    out = {rank: flight.head.frames for rank, flight in flights.items() if flight.head is not None}
    out.update({rank: reading.frames for rank, reading in readings.items() if reading.frames})
    return out


def refine(
    findings: Sequence[Finding],
    frames: Mapping[int, tuple[Frame, ...]],
    flights: Mapping[int, RankFlight],
    line_of: LineOf,
    *,
    unnumbered: Mapping[int, tuple[Frame, ...]],
) -> list[Finding]:
    """The findings, with the cause that history and text give where the calls that meet leave several open.

    `unnumbered`: the stacks of processes without a rank that wait or are accused, by their pid.
    """
    out = []
    for finding in findings:
        met = meeting_of(finding, flights, frames, line_of)
        if met is not None and is_other_size(met, line_of):
            out.append(replace(finding, site=met.ours.site))
            continue
        way = None if met is None else way_of(met, line_of)
        flight = flights.get(finding.culprit_ranks[0]) if finding.culprit_ranks else None
        is_entered = flight is None or flight.data.has_end or not made_no_transfer(flight)
        is_entered = is_entered and (met is None or not is_once_a_round(met))
        is_entered = is_entered and not _made_as_many_steps(finding, flights)
        is_past = _begun_more(finding, flights)
        found = _out_of_data(finding, frames, flights, way)
        found = found or _refined(finding, frames, unnumbered, line_of, way, is_entered=is_entered, is_past=is_past)
        if met is not None and found is finding:
            found = left_out(finding, met, line_of) if way is Way.LEFT_OUT else found
            is_known = finding.cause is Cause.EXTRA_COLLECTIVE
            if way in (Way.EARLY, Way.ONE_MORE) and not is_known:
                found = _stayed(finding, met, line_of) or one_more(finding, met)
        out.append(found)
    return out


def _made_as_many_steps(finding: Finding, flights: Mapping[int, RankFlight]) -> bool:
    """Whether the culprit has ended the step that who waits is in: then no turn of it is missing so far."""
    steps = [
        [flights[rank].step for rank in ranks if rank in flights]
        for ranks in (finding.culprit_ranks, finding.waiting_ranks)
    ]
    ours, theirs = ([step for step in some if step is not None] for some in steps)
    return bool(ours and theirs) and min(ours) > max(theirs)


def _begun_more(finding: Finding, flights: Mapping[int, RankFlight]) -> bool:
    """Whether the culprit has begun more turns than who waits, as both recorders tell by the data they asked for."""
    ranks = [next(iter(some), None) for some in (finding.culprit_ranks, finding.waiting_ranks)]
    ours, theirs = (None if rank is None else flights.get(rank) for rank in ranks)
    return ours is not None and theirs is not None and has_begun_more(ours.data, theirs.data)


def _out_of_data(
    finding: Finding, frames: Mapping[int, tuple[Frame, ...]], flights: Mapping[int, RankFlight], way: Way | None
) -> Finding | None:
    """The finding, as the end of the culprit's data before that of who waits, where their recorders tell."""
    if finding.code not in _CODES - {"H101", "H106"} or finding.cause not in _UNCLEAR or not finding.waiting_ranks:
        return None
    ours, theirs = (next(iter(ranks), None) for ranks in (finding.culprit_ranks, finding.waiting_ranks))
    if ours is None or theirs is None or not {ours, theirs} <= flights.keys() or way in (Way.EARLY, Way.ONE_MORE):
        return None
    here, there = user_frame(frames.get(ours, ())), user_frame(frames.get(theirs, ()))
    if here is None or there is None or not is_out_of_data(flights[ours].data, flights[theirs].data):
        return None
    return _left(finding, frames[ours], here, there, Cause.UNEVEN_DATA)


def _refined(
    finding: Finding,
    frames: Mapping[int, tuple[Frame, ...]],
    unnumbered: Mapping[int, tuple[Frame, ...]],
    line_of: LineOf,
    way: Way | None,
    *,
    is_entered: bool,
    is_past: bool,
) -> Finding:
    """See `refine`. `way`: who makes a call alone lacks none, and if that is early has not left a loop either.

    `is_entered`: the culprit may have come to the loop that the others are in, and left it for want of data. `is_past`:
    it had as many turns of that loop, and went past the call in one.
    """
    ranks = finding.culprit_ranks
    if finding.cause is Cause.MISSING_GROUP and ranks and finding.waiting_ranks:
        here, there = (frames.get(rank, ()) for rank in (ranks[0], finding.waiting_ranks[0]))
        return decided(finding, here, there, line_of, what=f"{_who(finding)} went another way")
    if finding.code not in _CODES or finding.cause not in _UNCLEAR:
        return finding
    if ranks and finding.waiting_ranks:
        ours = frames.get(ranks[0], ())
        waiters = [frames[rank] for rank in finding.waiting_ranks if rank in frames][:MAX_WAITERS]
    else:
        pids = finding.culprit_pids
        ours = unnumbered.get(pids[0], ()) if pids else ()
        waiters = [stack for pid, stack in unnumbered.items() if pid not in pids][:MAX_WAITERS]
    if not ours or not waiters:
        return finding
    # Who sleeps in a handler is about to try again.
    tries = finding.cause is Cause.SLEEP or tries_lock(place_at(user_frame(ours), line_of))
    handler = None if tries else _inside_handler(ours, line_of)
    if handler is not None:
        return _swallowed(finding, ours, f"it is in the handler that begins at {handler}")
    if finding.cause in (Cause.LOCK, Cause.SLEEP, Cause.STORE_WAIT) and finding.code not in ("H101", "H106"):
        return finding
    # Of those that wait some may be in the very call that ours is in, for others.
    theirs = next((stack for stack in waiters if user_frame(stack) != user_frame(ours)), waiters[0])
    guard = None if way in (Way.EARLY, Way.ONE_MORE) else swallowed_at(ours, theirs, line_of)
    if guard is not None and finding.cause is not Cause.UNKNOWN:
        why = f"the call that it lacks is guarded at {guard.site}, which goes on after an error"
        return replace(_swallowed(finding, ours, why), site=guard.site)
    for stack in () if way is Way.EARLY else waiters:
        if way is Way.ONE_MORE and passed_at(stack, ours, line_of):
            # A choice of its own led there.
            continue
        parted = left_the_loop(ours, stack, line_of, is_ahead=way is Way.LEFT_OUT)
        if parted is not None:
            now, inside, cause = parted
            if finding.code in ("H101", "H106") and _share_a_loop(now, inside, line_of):
                # Who is in no call and behind an inner loop may be in the turn before that of the others.
                continue
            if is_past:
                left = _left(finding, ours, now, inside, Cause.SKIPPED_COLLECTIVE)
                return decided(left, ours, stack, line_of, what=f"{_who(finding)} went another way in a turn")
            cause = cause if is_entered else Cause.SKIPPED_COLLECTIVE
            if way is Way.LEFT_OUT and cause is Cause.SKIPPED_COLLECTIVE and passed_at(ours, theirs, line_of):
                # Of as many turns, one went past the call by a choice in the turn.
                break
            place = place_at(inside, line_of)
            if cause is Cause.UNEVEN_DATA and is_by_choice(place):
                # A choice in each turn that the rank makes by itself: a turn may lack the call, with as many turns.
                cause = Cause.SKIPPED_COLLECTIVE
            return _left(finding, ours, now, inside, cause, exits=() if place is None else led_past(place))
    if finding.cause is not Cause.SKIPPED_COLLECTIVE:
        return finding
    if passed_at(ours, theirs, line_of) == [] and passed_at(theirs, ours, line_of):
        return _early(finding, ours, theirs)
    return decided(finding, ours, theirs, line_of, what=f"{_who(finding)} went another way")


def _share_a_loop(now: Frame, inside: Frame, line_of: LineOf) -> bool:
    places = [place_at(frame, line_of) for frame in (now, inside)]
    here, there = ((() if place is None else place.loops) for place in places)
    return any(loop in there for loop in here)


def _inside_handler(ours: tuple[Frame, ...], line_of: LineOf) -> str | None:
    frame = user_frame(ours)
    place = place_at(frame, line_of)
    line = None if place is None else handler_around(place)
    return None if frame is None or line is None else replace(frame, line=line).site


def _site(ours: tuple[Frame, ...], finding: Finding) -> str | None:
    frame = user_frame(ours)
    return finding.site if frame is None else frame.site


def _who(finding: Finding) -> str:
    if finding.culprit_ranks:
        return ranks_text(finding.culprit_ranks)
    pids = ", ".join(map(str, finding.culprit_pids))
    return f"{verb(finding.culprit_pids, 'process', 'processes')} {pids}"


def _left(
    finding: Finding,
    ours: tuple[Frame, ...],
    now: Frame,
    inside: Frame,
    cause: Cause,
    *,
    exits: Sequence[int] = (),
) -> Finding:
    """`exits`: lines that lead out of the loop, or past the call in it, so that its data may not have been fewer."""
    ranks = finding.culprit_ranks or finding.culprit_pids
    rest = finding.waiting_ranks
    others = f"{ranks_text(rest)} {verb(rest, 'is', 'are')}" if rest else "the others are"
    is_data = cause is Cause.UNEVEN_DATA
    what = "had fewer turns" if is_data else "made fewer calls in as many turns, or broke off, or left it out"
    advice = "give every rank the same number of batches: drop_last=True, a sampler that pads, or a Join context"
    if is_data and exits:
        there = ", ".join(replace(inside, line=line).site or "" for line in exits[:MAX_EXITS])
        what += f", or went past it at {there}"
        advice = f"read the condition before {there}; if it holds alike on all ranks, {advice}"
    return replace(
        finding,
        kind=Kind.MISSING,
        cause=cause,
        site=_site(ours, finding),
        message=f"{_who(finding)} left the loop that {others} still in ({inside.site}), and "
        f"{verb(ranks, 'is', 'are')} at {now.site}: {verb(ranks, 'it', 'they')} {what}",
        evidence=(finding.message, *finding.evidence),
        next=advice
        if is_data
        else f"read the conditions in the loop around {inside.site}: one holds on {_who(finding)} alone",
    )


def _stayed(finding: Finding, met: Meeting, line_of: LineOf) -> Finding | None:
    """The finding, where the others have left the loop of which the culprit makes one more turn; else None."""
    gone = left_the_loop(met.there, met.here, line_of)
    if gone is None or not met.past or not are_alike(met.past[-1], met.ours):
        return None
    now, inside, cause = gone
    ranks, rest = finding.culprit_ranks, finding.waiting_ranks
    is_data = cause is Cause.UNEVEN_DATA
    what = "it has more turns" if is_data else "each decides by itself when to leave it"
    return replace(
        finding,
        kind=Kind.MISSING,
        cause=cause,
        site=inside.site,
        message=f"{ranks_text(ranks)} {verb(ranks, 'is', 'are')} still in the loop ({inside.site}) that "
        f"{ranks_text(rest)} {verb(rest, 'has', 'have')} left for {now.site}: {what}",
        evidence=(finding.message, *finding.evidence),
        next="give every rank the same number of batches: drop_last=True, a sampler that pads, or a Join context"
        if is_data
        else f"let all ranks agree before one leaves the loop around {inside.site}, as by an all_reduce of the choice",
    )


def _early(finding: Finding, ours: tuple[Frame, ...], theirs: tuple[Frame, ...]) -> Finding:
    here, there = _site(ours, finding), _site(theirs, finding)
    return replace(
        finding,
        kind=Kind.MISMATCH,
        cause=Cause.EXTRA_COLLECTIVE,
        site=here,
        message=f"{_who(finding)} {verb(finding.culprit_ranks, 'makes', 'make')} a call before its turn at {here}: "
        f"no choice leads past the one at {there}, in which the others wait",
        evidence=(finding.message, *finding.evidence),
        next=f"read the condition around {here}: it holds on {_who(finding)} alone",
    )


def _swallowed(finding: Finding, ours: tuple[Frame, ...], why: str) -> Finding:
    return replace(
        finding,
        kind=Kind.MISSING,
        cause=Cause.SWALLOWED_EXCEPTION,
        site=_site(ours, finding),
        message=f"{_who(finding)} left out a call after an exception that the program caught: {why}",
        evidence=(finding.message, *finding.evidence),
        next="log the exception where it is caught, and let all ranks agree before one goes on without the call",
    )
