"""Judges the parts of a collective pair by pair: is what a member gives what each other one expects? (M102)"""

from collections import Counter
from collections.abc import Iterator, Sequence

from emberward.events import Collective, Observer, expects, gives, is_split, misfits
from emberward.findings import Cause, Finding, Kind, Severity
from emberward.match._table import Meeting, Table
from emberward.match._words import certainty_of, columns, op_text, phase_of, phase_text, plural, ranks_text, site_text

MAX_ROWS = 4
"""Most pairs of one call that are shown."""

Call = tuple[int, int, Collective]
"""(rank, event id, body) of one member's part of a call."""
Misfit = tuple[int, int, int, int]
"""(giver, taker, given, expected), members by their place in the group."""


def split_faults(table: Table, observer: Observer) -> Iterator[Finding]:
    """Yields M102 for the first call of each group whose parts do not fit, where they are known."""
    seen: set[int] = set()
    for m, call in _calls(table):
        if m not in seen and (found := _misfits(table, call)):
            seen.add(m)
            yield _finding(table, table.meetings[m], call, found, observer)


def uncompared_splits(table: Table) -> tuple[str, ...]:
    """A line for each operation and group whose parts a trace does not tell, so that they were not compared."""
    counts: Counter[str] = Counter()
    for _, call in _calls(table):
        if not _is_known(table, call):
            rank, e, body = call[0]
            site = site_text(table.at(rank, e))
            counts[f"{body.op.value} {body.group}" + (f" at {site}" if site else "")] += 1
    return tuple(f"the sizes of the parts of {what} ({plural(count, 'call')})" for what, count in counts.items())


def _calls(table: Table) -> Iterator[tuple[int, list[Call]]]:
    """Yields (meeting, call) where all known members make the same operation with parts that may differ."""
    places = {
        (table.instance_meeting[table.arg[e]], table.number[e])
        for e, event in enumerate(table.events)
        if isinstance(event.body, Collective) and is_split(event.body)
    }
    for m, k in sorted(places):
        meeting = table.meetings[m]
        members = [(rank, meeting.calls[party]) for rank, party in meeting.members if party is not None]
        if any(k >= len(calls) for _, calls in members):
            continue
        bodies = [(rank, calls[k], table.events[calls[k]].body) for rank, calls in members]
        call = [(rank, e, body) for rank, e, body in bodies if isinstance(body, Collective)]
        first = call[0][2]
        if len(call) == len(members) and all(b.op is first.op and b.root == first.root for _, _, b in call):
            yield m, call


def _is_known(table: Table, call: Sequence[Call]) -> bool:
    size = len(call[0][2].group.ranks)
    splits = [sizes for _, _, body in call for sizes in (body.in_splits, body.out_splits) if sizes is not None]
    if not table.is_plain and any(len(set(sizes)) > 1 for sizes in splits):
        return False  # a class of ranks has one program, whose splits name places in the group of one of them
    return len(call) == size and all(
        gives(body, _own(body, rank)) is not None and expects(body, _own(body, rank)) is not None
        for rank, _, body in call
    )


def _own(body: Collective, rank: int) -> int:
    return rank if rank in body.group.ranks else body.group.ranks[0]


def _misfits(table: Table, call: Sequence[Call]) -> tuple[Misfit, ...]:
    if not _is_known(table, call):
        return ()
    return misfits(
        tuple(gives(body, _own(body, rank)) for rank, _, body in call),
        tuple(expects(body, _own(body, rank)) for rank, _, body in call),
    )


def _odd_member(found: Sequence[Misfit], size: int) -> int | None:
    """The one member without which all others fit, None when there is none or several."""
    odd = [m for m in range(size) if all(m in pair[:2] for pair in found)]
    return odd[0] if len(odd) == 1 and size > 2 else None


def _finding(
    table: Table, meeting: Meeting, call: Sequence[Call], found: Sequence[Misfit], observer: Observer
) -> Finding:
    giver, taker, given, expected = found[0]
    odd = _odd_member(found, len(call))
    source, target = call[giver][0], call[taker][0]
    body = call[giver][2]
    others = f" and {plural(len(found) - 1, 'other pair')}" if len(found) > 1 else ""
    users = sorted({call[m][0] for pair in found for m in pair[:2]})
    culprits = () if odd is None else (call[odd][0],)
    here = table.events[call[giver if odd is None else odd][1]]
    message = (
        f"{body.op.value} of {meeting.group}: rank {source} gives {given} elements to rank {target}, which expects "
        f"{expected} of it{others}"
    )
    rows = [
        (f"rank {call[m][0]}", op_text(event), phase_text(event.phase), _sizes_text(call[m][2]), site_text(event) or "")
        for m in dict.fromkeys(m for pair in found for m in pair[:2])
        if (event := table.events[call[m][1]])
    ][:MAX_ROWS]
    return Finding(
        code="M102",
        severity=Severity.ERROR,
        kind=Kind.MISMATCH,
        cause=Cause.SHAPE,
        certainty=certainty_of(observer),
        message=message,
        culprit_ranks=culprits,
        waiting_ranks=tuple(sorted(rank for rank, _, _ in call if rank not in culprits)) if culprits else (),
        site=site_text(here),
        phase=phase_of(here),
        evidence=columns(rows),
        next=f"make {ranks_text(users)} exchange the sizes that this call uses",
    )


def _sizes_text(body: Collective) -> str:
    parts = [
        f"{word} {', '.join(map(str, sizes[:8]))}{', ...' if len(sizes) > 8 else ''}"
        for word, sizes in (("gives", body.in_splits), ("expects", body.out_splits))
        if sizes is not None
    ]
    return "; ".join(parts) or f"{body.numel} elements"
