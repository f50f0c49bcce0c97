"""Judges each group by itself: do its members make the same calls, in the same number? (M101, M102, M103)"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from emberward.events import GroupCreate, Observer, Phase, Site, Stage
from emberward.findings import Cause, Finding, Kind, Severity
from emberward.match._align import Departure, DepartureKind, depart
from emberward.match._fault import CallFault, OddSide, Signature, TieBreak, signature
from emberward.match._flow import Executed
from emberward.match._locate import located
from emberward.match._table import Meeting, Party, Table
from emberward.match._words import certainty_of, columns, op_text, phase_of, phase_text, plural, ranks_text, site_text

MAX_CLUSTERS = 4
"""Most different programs that are reported for one group."""

_END = -1


def _blank_unknown(signatures: dict[Party, list[Signature]]) -> dict[Party, list[Signature]]:
    """The signatures without those facts that some call of the same operation does not tell."""
    seen: dict[tuple[str, int], set[bool]] = defaultdict(set)
    for found in signatures.values():
        for sig in set(found):
            for position in (1, 2, 4, 5):
                seen[(sig[0], position)].add(sig[position] is None)
    blank = {key for key, values in seen.items() if values == {True, False}}
    if not blank:
        return signatures

    def strip(sig: Signature) -> Signature:
        op, dtype, numel, root, reduce_op, parts = sig
        return (
            op,
            None if (op, 1) in blank else dtype,
            None if (op, 2) in blank else numel,
            root,
            None if (op, 4) in blank else reduce_op,
            None if (op, 5) in blank else parts,
        )

    return {party: [strip(sig) for sig in found] for party, found in signatures.items()}


def _tokens(table: Table, meeting: Meeting) -> dict[Party, list[Signature]] | None:
    """Each party's signatures; None when all are equal, which is the fast and usual case."""
    events = table.events
    signatures = {party: [signature(events[e]) for e in calls] for party, calls in meeting.calls.items()}
    first = next(iter(signatures.values()), [])
    if all(found == first for found in signatures.values()):
        return None
    signatures = _blank_unknown(signatures)
    first = next(iter(signatures.values()))
    return None if all(found == first for found in signatures.values()) else signatures


def call_faults(
    table: Table,
    *,
    is_complete: bool,
    open_ranks: frozenset[int] = frozenset(),
    tie_break: TieBreak | None = None,
    flows: Mapping[int, Executed] | None = None,
) -> Iterator[CallFault]:
    """Yields where members of one group depart from the others, each group's faults in order of their place.

    `is_complete` False: the trace may stop anywhere, so a party that merely ends early is an open end; so are
    `open_ranks` of a complete one.
    """
    for m, meeting in enumerate(table.meetings):
        signatures = _tokens(table, meeting)
        if signatures is not None and open_ranks:
            signatures = _continued(table, signatures, open_ranks)
        if signatures is not None:
            for fault in _meeting_faults(table, m, meeting, signatures, is_complete=is_complete):
                found = None if flows is None or fault.is_open_end else located(table, fault, flows)
                if found is not None:
                    yield found
                else:
                    yield fault if tie_break is None else _untied(table, fault, tie_break)


def _continued(
    table: Table, signatures: dict[Party, list[Signature]], open_ranks: frozenset[int]
) -> dict[Party, list[Signature]] | None:
    """The signatures, where a party that was cut is taken to go on as one that agrees with it; None when all agree."""
    found = {}
    for party, own in signatures.items():
        is_open = table.linker.rank_of(party[0]) in open_ranks
        alike = [other for other in signatures.values() if other[: len(own)] == own] if is_open else []
        found[party] = max(alike, key=len, default=own)
    first = next(iter(found.values()))
    return None if all(each == first for each in found.values()) else found


def _untied(table: Table, fault: CallFault, tie_break: TieBreak) -> CallFault:
    """The fault with its odd side, where the majority does not tell it and the program's text and history do.

    [Note: two sides]
    Of two ranks none is the majority. The text tells who has left a loop, and whose call stands under a condition that
    the other call does not stand under. Such a call is one too many when nobody made it before; else it belongs to each
    round, and the other side left it out.
    """
    if not fault.is_tied or fault.is_open_end or table.meetings[fault.meeting].is_creation:
        return fault
    index = fault.departure.index
    meeting = table.meetings[fault.meeting]
    parties = (fault.odd_party, fault.reference_party)
    sites = [_site_at(table, meeting, party, index) for party in parties]
    found = None
    if sites[0] is not None:
        found = tie_break(sites[0], sites[1])
    elif sites[1] is not None:
        found = tie_break(sites[1], None)
        found = None if found is None else OddSide(not found.is_first, found.cause, found.why)
    if found is None:
        return fault
    is_first, cause = found.is_first, found.cause
    if cause is Cause.EXTRA_COLLECTIVE:
        line = sites[0 if is_first else 1]
        before = (_site_at(table, meeting, party, at) for party in parties for at in range(index))
        if any(site == line for site in before):
            is_first, cause = not is_first, Cause.SKIPPED_COLLECTIVE
    kind = DepartureKind.EXTRA if cause is Cause.EXTRA_COLLECTIVE else DepartureKind.MISSING
    is_counted = fault.departure.kind is not DepartureKind.DIFFERENT
    flipped = CallFault(
        meeting=fault.meeting,
        departure=Departure(kind, index, fault.departure.count if is_counted else 1),
        odd_ranks=fault.odd_ranks if is_first else fault.other_ranks,
        other_ranks=fault.other_ranks if is_first else fault.odd_ranks,
        odd_party=parties[0 if is_first else 1],
        reference_party=parties[1 if is_first else 0],
        is_tied=False,
        is_open_end=False,
        broken_by=OddSide(is_first, cause, found.why),
    )
    return flipped


def _site_at(table: Table, meeting: Meeting, party: Party, index: int) -> Site | None:
    calls = meeting.calls[party]
    return table.events[calls[index]].site if index < len(calls) else None


def _meeting_faults(
    table: Table, m: int, meeting: Meeting, signatures: dict[Party, list[Signature]], *, is_complete: bool
) -> Iterator[CallFault]:
    ranks_of: dict[Party, list[int]] = defaultdict(list)
    for rank, party in meeting.members:
        if party is not None:
            ranks_of[party].append(rank)
    clusters: dict[tuple[Signature, ...], list[Party]] = defaultdict(list)
    for party, found in signatures.items():
        clusters[tuple(found)].append(party)
    sizes = {key: sum(len(ranks_of[party]) for party in parties) for key, parties in clusters.items()}
    for parties in clusters.values():
        parties.sort(key=lambda party: -len(meeting.calls[party]))  # those that were cut stand for nobody
    total = sum(sizes.values())
    index = _first_split(list(clusters))
    votes: Counter[Signature | int] = Counter()
    for key, size in sizes.items():
        votes[key[index] if index < len(key) else _END] += size
    winner, count = votes.most_common(1)[0]
    is_tied = 2 * count <= total
    agreeing = [key for key in clusters if (key[index] if index < len(key) else _END) == winner]
    reference = max(agreeing, key=lambda key: (sizes[key], len(key)))
    if is_tied:
        reference = max(clusters, key=lambda key: (sizes[key], len(key)))
    reference_ranks = _ranks(clusters[reference], ranks_of)
    interned: dict[object, int] = {}
    for key in sorted((key for key in clusters if key != reference), key=lambda key: sizes[key])[:MAX_CLUSTERS]:
        odd_party, reference_party = clusters[key][0], clusters[reference][0]
        departure = depart(
            _intern(key, interned),
            _intern(reference, interned),
            lines=(
                _intern(_lines(table, meeting, odd_party, key), interned),
                _intern(_lines(table, meeting, reference_party, reference), interned),
            ),
        )
        shorter = min(len(key), len(reference))
        yield CallFault(
            meeting=m,
            departure=departure,
            odd_ranks=_ranks(clusters[key], ranks_of),
            other_ranks=reference_ranks,
            odd_party=odd_party,
            reference_party=reference_party,
            is_tied=is_tied,
            is_open_end=not is_complete and departure.index == shorter and key[:shorter] == reference[:shorter],
        )


def _ranks(parties: list[Party], ranks_of: dict[Party, list[int]]) -> tuple[int, ...]:
    return tuple(sorted(rank for party in parties for rank in ranks_of[party]))


def _first_split(sequences: list[tuple[Signature, ...]]) -> int:
    index = 0
    while len({key[index] if index < len(key) else _END for key in sequences}) == 1:
        index += 1
    return index


def _intern(items: Sequence[object], known: dict[object, int]) -> list[int]:
    return [known.setdefault(item, len(known)) for item in items]


def _lines(table: Table, meeting: Meeting, party: Party, key: tuple[Signature, ...]) -> list[object]:
    sites = (table.events[e].site for e in meeting.calls[party])
    return [(sig, None if site is None else (site.file, site.line)) for sig, site in zip(key, sites, strict=True)]


def _max_step(table: Table, node: int) -> int | None:
    steps = (table.events[e].phase for e in table.node_events[node])
    return max((phase.step for phase in steps if _is_training(phase) and phase.step is not None), default=None)


def _is_training(phase: Phase) -> bool:
    return phase.stage not in (Stage.EVAL, Stage.SAVE, Stage.LOAD, Stage.SETUP, Stage.CHECK, Stage.SEARCH, Stage.EXIT)


def _is_uneven(table: Table, fault: CallFault) -> bool:
    """Whether the side with fewer calls never enters the step in which the other side makes its first further call."""
    meeting, departure = table.meetings[fault.meeting], fault.departure
    more, fewer = fault.reference_party, fault.odd_party
    if departure.kind is DepartureKind.EXTRA:
        more, fewer = fewer, more
    phase = table.events[meeting.calls[more][departure.index]].phase
    last = _max_step(table, fewer[0])
    return phase.step is not None and _is_training(phase) and last is not None and last < phase.step


def _mismatch(table: Table, fault: CallFault) -> tuple[str, Cause, str]:
    """(code, cause, what differs) of a call that meets another one."""
    meeting, index = table.meetings[fault.meeting], fault.departure.index
    odd = signature(table.events[meeting.calls[fault.odd_party][index]])
    other = signature(table.events[meeting.calls[fault.reference_party][index]])
    if odd[0] != other[0]:
        return "M101", Cause.DIFFERENT_OP, f"{odd[0]} where others call {other[0]}"
    if odd[4] != other[4] and None not in (odd[4], other[4]):
        return "M101", Cause.DIFFERENT_OP, f"{odd[0]} with {odd[4]} where others reduce with {other[4]}"
    if odd[3] != other[3]:
        return "M102", Cause.DIFFERENT_ROOT, f"{odd[0]} with root {odd[3]} where others have root {other[3]}"
    if odd[1] != other[1] and None not in (odd[1], other[1]):
        return "M102", Cause.DTYPE, f"{odd[0]} of {odd[1]} where others have {other[1]}"
    if odd[2] == other[2]:
        return "M102", Cause.SHAPE, f"{odd[0]} of tensors of {_counts(odd)} where others have {_counts(other)} elements"
    return "M102", Cause.SHAPE, f"{odd[0]} of {odd[2]} elements where others have {other[2]}"


def _counts(sig: Signature) -> str:
    return ", ".join(map(str, sig[5] or ())) or str(sig[2])


def _row(table: Table, label: str, meeting: Meeting, party: Party, index: int) -> tuple[str, ...]:
    calls = meeting.calls[party]
    if index >= len(calls):
        return (label, f"call {index + 1} of {meeting.group}", "ends before this call", "", "")
    event = table.standing(calls[index])
    return (
        label,
        f"call {index + 1} of {meeting.group}",
        op_text(event),
        phase_text(event.phase),
        site_text(event) or "",
    )


def fault_finding(table: Table, fault: CallFault, observer: Observer) -> Finding:
    """The finding (M101, M102 or M103) for one fault."""
    meeting, departure = table.meetings[fault.meeting], fault.departure
    who, others = ranks_text(fault.odd_ranks), ranks_text(fault.other_ranks)
    index = departure.index
    rows = columns(
        [
            _row(table, who, meeting, fault.odd_party, index),
            _row(table, others, meeting, fault.reference_party, index),
        ]
    )
    verb = "calls" if len(fault.odd_ranks) == 1 else "call"
    odd_calls, calls = meeting.calls[fault.odd_party], meeting.calls[fault.reference_party]
    here = odd_calls[index] if index < len(odd_calls) else calls[index]
    culprits, waiting = fault.odd_ranks, fault.other_ranks
    if fault.broken_by is not None:
        rows = (*rows, fault.broken_by.why)
    if departure.kind is DepartureKind.DIFFERENT:
        code, cause, what = _mismatch(table, fault)
        message = f"{who} {verb} {what}"
        if fault.is_tied:
            message = f"{who} and {others} do not agree: {what}; no majority tells which is right"
        kind = Kind.MISMATCH
    else:
        cause, message = _count_text(table, fault, who, others)
        code, kind = "M103", Kind.MISMATCH if cause is Cause.EXTRA_COLLECTIVE else Kind.MISSING
    site = _tied_site(table, fault) if fault.is_tied else _site(table, fault)
    return Finding(
        code=code,
        severity=Severity.WARNING if fault.is_open_end else Severity.ERROR,
        kind=kind,
        cause=cause,
        certainty=certainty_of(observer),
        message=message,
        culprit_ranks=() if fault.is_tied else culprits,
        waiting_ranks=tuple(sorted((*culprits, *waiting))) if fault.is_tied else waiting,
        site=site,
        phase=phase_of(table.events[here]),
        evidence=rows,
        next=_next(fault, who, others),
    )


def _tied_site(table: Table, fault: CallFault) -> str | None:
    """The line at which a side of a tie makes the call that differs, the first that is known; the rows have both."""
    meeting, index = table.meetings[fault.meeting], fault.departure.index
    sites = (_site_at(table, meeting, party, index) for party in (fault.odd_party, fault.reference_party))
    return next((str(site) for site in sites if site is not None), None)


def _next(fault: CallFault, who: str, others: str) -> str:
    if fault.broken_by is not None and fault.broken_by.cause is Cause.UNEVEN_DATA:
        return "give every rank the same number of batches: drop_last=True, a sampler that pads, or a Join context"
    match fault.departure.kind:
        case DepartureKind.DIFFERENT:
            return f"make {who} and {others} issue the same call at this place"
        case DepartureKind.MISSING | DepartureKind.EXTRA:
            return "make this call on every rank of the group, or on none"


def _count_text(table: Table, fault: CallFault, who: str, others: str) -> tuple[Cause, str]:
    meeting, departure = table.meetings[fault.meeting], fault.departure
    count, group = plural(departure.count, "call"), str(meeting.group)
    is_extra = departure.kind is DepartureKind.EXTRA
    s = "s" if len(fault.odd_ranks) == 1 else ""
    if meeting.is_creation:
        cause = Cause.MISSING_GROUP
    elif fault.is_open_end:
        cause = Cause.UNKNOWN
    elif fault.broken_by is not None:
        cause = fault.broken_by.cause
    elif _is_uneven(table, fault):
        cause = Cause.UNEVEN_DATA
    else:
        cause = Cause.EXTRA_COLLECTIVE if is_extra else Cause.SKIPPED_COLLECTIVE
    if fault.is_open_end and not is_extra:
        return cause, f"{who} has not made call {departure.index + 1} of {group}, which {others} made"
    if is_extra:
        never = "never makes" if len(fault.other_ranks) == 1 else "never make"
        return cause, f"{who} make{s} {count} of {group} that {others} {never}"
    make = "makes" if len(fault.other_ranks) == 1 else "make"
    return cause, f"{who} skip{s} {count} of {group} that {others} {make}"


def _site(table: Table, fault: CallFault) -> str | None:
    """The odd side's current, extra or skipping line: for a skipped call, the line of its next call or its last."""
    meeting, index = table.meetings[fault.meeting], fault.departure.index
    calls = meeting.calls[fault.odd_party]
    if fault.departure.kind is not DepartureKind.MISSING:
        return site_text(table.events[calls[index]])
    if fault.broken_by is not None and fault.broken_by.site is not None:
        return fault.broken_by.site
    events = table.node_events[fault.odd_party[0]]
    start = calls[index - 1] + 1 if 0 < index <= len(calls) else events.start
    skipped = table.events[meeting.calls[fault.reference_party][index]]
    for e in range(start, events.stop):
        event = table.events[e]
        if event.site is not None and not isinstance(event.body, GroupCreate) and event.lane == skipped.lane:
            return site_text(event)
    last = calls[min(index, len(calls)) - 1] if calls and index > 0 else None
    return None if last is None else site_text(table.events[last])
