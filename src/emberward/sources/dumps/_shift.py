"""Equal calls that meet one place apart: a rank left out a call, or made one too many, and nobody noticed.

Calls of one operation and size meet whatever line they come from. Their lines tell: from some place on, the rank's
lines are those that its peers had one call earlier or later. A rank that takes other lines all along has no such place.
"""

from collections.abc import Iterator, Mapping

from emberward.findings import Cause, Certainty, Finding, Kind
from emberward.sources.dumps._flight import Call, RankFlight, call_of
from emberward.sources.dumps._frames import user_frame
from emberward.sources.dumps._groups import Groups, GroupView
from emberward.sources.dumps._program import swallowing_handler, text_of
from emberward.sources.dumps._say import hang_finding, ranks_text, verb
from emberward.sources.dumps._waits import LineOf

MIN_BEFORE = 3
"""Fewest calls that agree before the place."""
MIN_BEHIND = 4
"""Fewest calls behind the place that agree again, one place apart."""
MAX_SHIFT = 3
MIN_MEMBERS = 3
MAX_RANKS = 64
"""In larger jobs lines are not compared: it costs more than all else that is judged."""

Lines = dict[int, tuple[str, str]]


def _calls(flight: RankFlight, view: GroupView) -> dict[int, Call]:
    part = flight.groups.get(view.name)
    entries = [] if part is None or part.ranks not in (None, view.members) else part.entries
    return {entry["collective_seq_id"]: call_of(entry) for entry in entries}


def _lines(calls: Mapping[int, Call]) -> Lines | None:
    out = {}
    for seq, call in calls.items():
        place = call.place
        if place is None:
            return None
        out[seq] = (call.op, place)
    return out


def _runs_on(odd: Lines, usual: Lines, *, odd_from: int, usual_from: int) -> bool:
    """Whether two lists go on alike from two places to the end of either, for long enough."""
    length = 0
    while odd_from + length in odd and usual_from + length in usual:
        if odd[odd_from + length] != usual[usual_from + length]:
            return False
        length += 1
    return length >= MIN_BEHIND


def _shift(odd: Lines, usual: Lines) -> tuple[int, int] | None:
    """(place, how many calls were left out, negative for calls too many); None when the lines tell of neither."""
    common = sorted(odd.keys() & usual.keys())
    place = next((seq for seq in common if odd[seq] != usual[seq]), None)
    if place is None or place - common[0] < MIN_BEFORE:
        return None
    if _runs_on(odd, usual, odd_from=place + 1, usual_from=place + 1):
        return None  # One call made instead of another explains it as well.
    for count in range(1, MAX_SHIFT + 1):
        if _runs_on(odd, usual, odd_from=place, usual_from=place + count):
            return place, count
        if _runs_on(odd, usual, odd_from=place + count, usual_from=place):
            return place, -count
    return None


def shift_findings(flights: Mapping[int, RankFlight], groups: Groups, line_of: LineOf) -> Iterator[Finding]:
    """Yields an error for each rank whose calls meet those of its peers one place apart; the peers must agree."""
    if len(flights) > MAX_RANKS:
        return
    for view in groups:
        made = {rank: _calls(flights[rank], view) for rank in view.members if rank in flights}
        lines = {rank: found for rank, calls in made.items() if calls and (found := _lines(calls))}
        if len(lines) < MIN_MEMBERS or len(lines) < len(made):
            continue
        for rank, own in lines.items():
            others = [found for peer, found in lines.items() if peer != rank]
            first = others[0]
            if any(found[seq] != first[seq] for found in others[1:] for seq in found.keys() & first.keys()):
                continue
            shift = _shift(own, first)
            if shift is not None:
                place, count = shift
                peer = next(peer for peer in lines if peer != rank)
                yield _finding(rank, view, place, count, (made[rank][place], made[peer][place]), line_of)


def _finding(rank: int, view: GroupView, place: int, count: int, met: tuple[Call, Call], line_of: LineOf) -> Finding:
    ours, theirs = met
    is_skip = count > 0
    others = [member for member in view.members if member != rank]
    frame = user_frame(theirs.frames)
    text = None if frame is None or not is_skip else text_of(frame.file, line_of)
    handler = None if text is None or frame is None or frame.line is None else swallowing_handler(text, frame.line)
    cause = Cause.SKIPPED_COLLECTIVE if is_skip else Cause.EXTRA_COLLECTIVE
    if handler is not None:
        cause = Cause.SWALLOWED_EXCEPTION
    what = (
        f"left out the {theirs.text} at {theirs.site}"
        if is_skip
        else f"made a call too many, {ours.text} at {ours.site}"
    )
    return hang_finding(
        "H104",
        f"rank {rank} {what}: since call {place} of {view.label} its calls meet those of its peers "
        f"{abs(count)} {verb(range(abs(count)), 'place', 'places')} apart",
        kind=Kind.MISSING,
        cause=cause,
        certainty=Certainty.OBSERVED,
        ranks=(rank,),
        waiting=others,
        site=ours.site,
        evidence=(
            f"call {place} of {view.label}: rank {rank} at {ours.site}, {ranks_text(others)} at {theirs.site}",
            "the calls are of one operation and size: they met without an error",
        ),
        ruled_out=("another way through the program: the lines agree again one place on",),
        next_step=f"read the condition around {theirs.site if is_skip else ours.site}: it differs on rank {rank} alone",
    )
