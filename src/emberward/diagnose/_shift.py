"""Equal calls that meet one place apart: a rank left out a call, or made one too many, and nobody noticed.

Calls of one operation and size meet whatever line they come from. Their lines tell: from some place on, the rank's
lines are those that its peers had one call earlier or later. A rank that takes other lines all along has no such place.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emberward.diagnose._calls import Call, GroupPart, RankFlight
from emberward.diagnose._frames import LineOf, user_frame
from emberward.diagnose._groups import Groups, GroupView
from emberward.diagnose._handlers import swallower_around
from emberward.diagnose._order import MAX_SHIFT, follower, shift
from emberward.diagnose._program import place_at
from emberward.diagnose._say import hang_finding, ranks_text, verb
from emberward.diagnose._usual import decided
from emberward.findings import Cause, Certainty, Finding, Kind

MIN_MEMBERS = 3
"""Fewest members of which most can agree against one."""
Lines = dict[int, tuple[str, str]]


def _part(flight: RankFlight, view: GroupView) -> GroupPart | None:
    part = flight.groups.get(view.name)
    return None if part is None or part.ranks not in (None, view.members) else part


def _calls(flight: RankFlight, view: GroupView) -> dict[int, Call]:
    part = _part(flight, view)
    return {} if part is None else {entry["collective_seq_id"]: part.as_call(entry) for entry in part.entries}


def _lines(calls: Mapping[int, Call]) -> Lines | None:
    places = {seq: (call.op, place) for seq, call in calls.items() if (place := call.place) is not None}
    return places if len(places) == len(calls) else None


def shift_findings(flights: Mapping[int, RankFlight], groups: Groups, line_of: LineOf) -> Iterator[Finding]:
    """Yields an error for each rank whose calls meet those of its peers one place apart; the peers must agree.

    Of two ranks the odd one is that which left the order of all other rounds; where that does not tell, neither is
    named. Linear in calls: each rank's rows are compared with those of one peer, and lines are read where rows differ
    alone.
    """
    for view in groups:
        pair = _odd_and_peer(flights, view)
        if pair is None:
            continue
        made = {each: _calls(flights[each], view) for each in pair}
        own, usual = (_lines(made[each]) for each in pair)
        parted = None if own is None or usual is None else shift(own, usual)
        if own is None or usual is None or parted is None:
            continue
        place, count = parted
        odd = pair[0] if len(view.members) >= MIN_MEMBERS else _odd_of_two(pair, (own, usual), place)
        if odd is None:
            yield _untold(pair, view, place, count, (made[pair[0]][place], made[pair[1]][place]))
            continue
        peer = pair[1] if odd == pair[0] else pair[0]
        if odd == pair[1]:
            place, count = shift(usual, own) or (place, -count)
        yield _finding(odd, view, place, count, (made[odd][place], made[peer][place]), line_of)


def _odd_of_two(pair: tuple[int, int], lines: tuple[Lines, Lines], place: int) -> int | None:
    """Which of two ranks left the order that both kept before `place`, and keep again behind it; None: untold."""
    first = lines[0]
    past = [first[number] for number in sorted(first) if number < place]
    later = [first[number] for number in sorted(first) if number > place + MAX_SHIFT]
    expected = follower(past, later)
    is_left = [row[place] != expected for row in lines]
    return None if expected is None or all(is_left) else pair[is_left.index(True)]


def _odd_and_peer(flights: Mapping[int, RankFlight], view: GroupView) -> tuple[int, int] | None:
    """The one member whose lines differ from those of all others, which agree, and one of these; None without one."""
    parts = {rank: _part(flights[rank], view) for rank in view.members if rank in flights}
    entries = {rank: [] if part is None else part.entries for rank, part in parts.items()}
    if len(entries) < min(MIN_MEMBERS, len(view.members)) or not all(entries.values()):
        return None
    first, *rest = entries
    rows = {entry["collective_seq_id"]: entry for entry in entries[first]}
    # Ranks that recorded alike share their records.
    shared = set(map(id, entries[first]))
    unlike = [rank for rank in rest if _has_other_rows(rows, [e for e in entries[rank] if id(e) not in shared])]
    if not unlike:
        return None
    lines = {rank: _lines(_calls(flights[rank], view)) for rank in (first, *unlike)}
    known = {rank: found for rank, found in lines.items() if found is not None}
    if len(known) < len(lines):
        return None
    odd = [rank for rank in unlike if _disagree(known[rank], known[first])]
    if len(odd) == 1:
        return odd[0], first
    second = rest[0]
    if len(odd) < len(rest) or any(_disagree(known[rank], known[second]) for rank in rest[1:]):
        return None
    return first, second


def _has_other_rows(rows: Mapping[int, dict[str, Any]], entries: Sequence[dict[str, Any]]) -> bool:
    pairs = ((rows[entry["collective_seq_id"]], entry) for entry in entries if entry["collective_seq_id"] in rows)
    return any(a.get("frames") != b.get("frames") or a["profiling_name"] != b["profiling_name"] for a, b in pairs)


def _disagree(left: Lines, right: Lines) -> bool:
    return any(left[seq] != right[seq] for seq in left.keys() & right.keys())


def _untold(pair: tuple[int, int], view: GroupView, place: int, count: int, met: tuple[Call, Call]) -> Finding:
    """The error that names neither of two ranks: the call that one left out may be one too many of the other."""
    behind, ahead = (1, 0) if count > 0 else (0, 1)
    number = verb(range(abs(count)), "place", "places")
    return hang_finding(
        "H104",
        f"rank {pair[ahead]} left out the {met[behind].text} at {met[behind].site}, or rank {pair[behind]} made it "
        f"once too often: since call {place} of {view.label} their calls meet {abs(count)} {number} apart",
        kind=Kind.MISMATCH,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        waiting=pair,
        site=met[behind].site,
        evidence=(
            *_met_lines((f"rank {pair[0]}", f"rank {pair[1]}"), view, place, met),
            "of two ranks none is the majority, and no earlier rounds tell",
        ),
        next_step=f"read the condition around {met[behind].site}: it differs between the two ranks",
    )


def _met_lines(sides: tuple[str, str], view: GroupView, place: int, met: tuple[Call, Call]) -> tuple[str, str]:
    at = ", ".join(f"{side} at {call.site}" for side, call in zip(sides, met, strict=True))
    return f"call {place} of {view.label}: {at}", "the calls are of one operation and size: they met without an error"


def _finding(rank: int, view: GroupView, place: int, count: int, met: tuple[Call, Call], line_of: LineOf) -> Finding:
    ours, theirs = met
    is_skip = count > 0
    others = [member for member in view.members if member != rank]
    frame = user_frame(theirs.frames)
    lacked = place_at(frame, line_of) if is_skip else None
    cause = Cause.SKIPPED_COLLECTIVE if is_skip else Cause.EXTRA_COLLECTIVE
    if lacked is not None and swallower_around(lacked) is not None:
        cause = Cause.SWALLOWED_EXCEPTION
    what = (
        f"left out the {theirs.text} at {theirs.site}"
        if is_skip
        else f"made a call too many, {ours.text} at {ours.site}"
    )
    found = hang_finding(
        "H104",
        f"rank {rank} {what}: since call {place} of {view.label} its calls meet those of its peers "
        f"{abs(count)} {verb(range(abs(count)), 'place', 'places')} apart",
        kind=Kind.MISSING if is_skip else Kind.MISMATCH,
        cause=cause,
        certainty=Certainty.OBSERVED,
        ranks=(rank,),
        waiting=others,
        site=ours.site,
        evidence=_met_lines((f"rank {rank}", ranks_text(others)), view, place, met),
        ruled_out=("another way through the program: the lines agree again one place on",),
        next_step=f"read the condition around {theirs.site if is_skip else ours.site}: it differs on rank {rank} alone",
    )
    way = f"rank {rank} went another way"
    return decided(found, ours.frames, theirs.frames, line_of, what=way) if is_skip else found
