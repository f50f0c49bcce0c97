"""Equal calls that meet one place apart: a rank left out a call, or made one too many, and nobody noticed.

Calls of one operation and size meet whatever line they come from. Their lines tell: from some place on, the rank's
lines are those that its peers had one call earlier or later. A rank that takes other lines all along has no such place.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emberward.diagnose._calls import Call, GroupPart, RankFlight
from emberward.diagnose._frames import LineOf, user_frame
from emberward.diagnose._groups import Groups, GroupView
from emberward.diagnose._order import shift
from emberward.diagnose._program import place_at, swallower_around
from emberward.diagnose._say import hang_finding, ranks_text, verb
from emberward.findings import Cause, Certainty, Finding, Kind

MIN_MEMBERS = 3
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

    Linear in calls: each rank's rows are compared with those of one peer, and lines are read where rows differ alone.
    """
    for view in groups:
        pair = _odd_and_peer(flights, view)
        if pair is None:
            continue
        rank, peer = pair
        made = {each: _calls(flights[each], view) for each in pair}
        own, usual = _lines(made[rank]), _lines(made[peer])
        parted = None if own is None or usual is None else shift(own, usual)
        if parted is not None:
            place, count = parted
            yield _finding(rank, view, place, count, (made[rank][place], made[peer][place]), line_of)


def _odd_and_peer(flights: Mapping[int, RankFlight], view: GroupView) -> tuple[int, int] | None:
    """The one member whose lines differ from those of all others, which agree, and one of these; None without one."""
    parts = {rank: _part(flights[rank], view) for rank in view.members if rank in flights}
    entries = {rank: [] if part is None else part.entries for rank, part in parts.items()}
    if len(entries) < MIN_MEMBERS or not all(entries.values()):
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
    return hang_finding(
        "H104",
        f"rank {rank} {what}: since call {place} of {view.label} its calls meet those of its peers "
        f"{abs(count)} {verb(range(abs(count)), 'place', 'places')} apart",
        kind=Kind.MISSING if is_skip else Kind.MISMATCH,
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
