"""Turns a cycle of waits, or a wait for what does not exist, into lines that a person can act on. (M103, M104)"""

from emberward.events import Collective, Event, GroupCreate, Observer
from emberward.findings import Cause, Certainty, CycleMember, Finding, Kind, Severity
from emberward.match._table import Step, Table
from emberward.match._verdict import Cure, WaitLine
from emberward.match._waits import Head, Leaf, LeafKind, WaitEdge, WaitGraph
from emberward.match._words import (
    brief_text,
    certainty_of,
    columns,
    pass_text,
    phase_of,
    phase_text,
    ranks_text,
    site_text,
)

Cycle = list[tuple[Head, WaitEdge]]


def witness_of(graph: WaitGraph, cycle: Cycle) -> tuple[WaitLine, ...]:
    """One line for each head of the cycle."""
    table = graph.table
    lines = []
    for (rank, e), edge in cycle:
        event, awaited = table.at(rank, e), table.at(edge.rank, edge.awaited)
        behind = None if edge.head == edge.awaited else brief_text(table.at(edge.rank, edge.head))
        lines.append(
            WaitLine(
                rank=rank,
                lane=event.lane,
                position=event.position,
                op=brief_text(event),
                phase=event.phase,
                site=site_text(event),
                waits_for=(edge.rank,),
                awaited=brief_text(awaited),
                awaited_phase=awaited.phase,
                awaited_lane=awaited.lane,
                awaited_position=awaited.position,
                behind=behind,
            )
        )
    return tuple(lines)


def cause_of(table: Table, cycle: Cycle) -> Cause:
    """The kind of wait that closes the cycle: a credit, else a collective, else a send or receive, else the store."""
    steps = {table.step[e] for (_, e), _ in cycle}
    if Step.ACQUIRE in steps:
        return Cause.CYCLE_CREDIT
    if Step.MEET in steps:
        creations = [isinstance(table.events[e].body, GroupCreate) for (_, e), _ in cycle if table.step[e] is Step.MEET]
        return Cause.STORE_WAIT if all(creations) and Step.STORE_WAIT in steps else Cause.CYCLE_COLLECTIVE
    if Step.SEND in steps or Step.RECV in steps:
        return Cause.CYCLE_P2P
    return Cause.STORE_WAIT if Step.STORE_WAIT in steps else Cause.CYCLE_COLLECTIVE


def _title(ranks: list[int], num_lines: int) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} waits for itself" + (f", through {num_lines} lanes" if num_lines > 1 else "")
    if len(ranks) == 2 and num_lines == 2:
        return f"ranks {ranks[0]} and {ranks[1]} each wait for the other"
    if len(ranks) == 2:
        return f"ranks {ranks[0]} and {ranks[1]} wait for each other, through {num_lines} lanes"
    return f"{ranks_text(ranks)} wait in a cycle of {num_lines}"


def _wait_text(line: WaitLine) -> str:
    target = f"rank {line.waits_for[0]}"
    if line.waits_for[0] == line.rank:
        target = f"its lane {line.awaited_lane}"
    if line.behind is None:
        return f"waits for {target}" if line.awaited == line.op else f"waits for {target}: {line.awaited}"
    if line.awaited == line.op:
        return f"waits for {target}, where it is at slot {line.awaited_position} behind {line.behind}"
    return f"waits for {target}: {line.awaited} (slot {line.awaited_position}, behind {line.behind})"


def _passes(line: WaitLine) -> str | None:
    own, awaited = pass_text(line.phase), pass_text(line.awaited_phase)
    if own is None or awaited is None or own == awaited:
        return None
    return f"rank {line.rank}: {own} waits for {awaited}"


def cycle_evidence(witness: tuple[WaitLine, ...], cure: Cure | None) -> tuple[str, ...]:
    """The lines of the cycle, then the passes that wait for each other, then the order expected and found."""
    lanes = {str(line.lane) for line in witness}
    rows = []
    for i, line in enumerate(witness):
        before = witness[i - 1]
        is_place = cure is not None and line.rank in cure.ranks and before.behind is not None
        note = f"<- runs before its own {before.awaited}" if is_place and _first_place(witness, cure) == i else ""
        rows.append(
            (
                f"rank {line.rank}",
                str(line.lane) if len(lanes) > 1 else "",
                f"slot {line.position}",
                line.op,
                phase_text(line.phase),
                _wait_text(line),
                line.site or "",
                note,
            )
        )
    lines = list(columns(rows))
    lines += [text for line in witness if (text := _passes(line)) is not None]
    place = _first_place(witness, cure)
    if place is not None:
        line, before = witness[place], witness[place - 1]
        lines.append(f"expected  rank {line.rank}: {before.awaited} before {line.op}")
        lines.append(
            f"found     rank {line.rank}: {line.op} at slot {line.position}, "
            f"{before.awaited} at slot {before.awaited_position}"
        )
    return tuple(lines)


def _first_place(witness: tuple[WaitLine, ...], cure: Cure | None) -> int | None:
    """The line whose lane holds an awaited op behind another one; that of the cure's rank if the cure names one."""
    places = [i for i in range(len(witness)) if witness[i - 1].behind is not None]
    if cure is not None:
        places = [i for i in places if witness[i].rank in cure.ranks] or places
    return places[0] if places else None


def cycle_finding(
    graph: WaitGraph,
    cycle: Cycle,
    witness: tuple[WaitLine, ...],
    cure: Cure | None,
    *,
    observer: Observer,
    least_buffer_bytes: int | None,
    is_cured_by_buffer: bool,
    is_assumed_buffered: bool,
) -> Finding:
    """M104 for the smallest cycle; a warning when the program ends thanks to the buffer that the caller assumes."""
    table = graph.table
    ranks = sorted({rank for (rank, _), _ in cycle})
    members = tuple(
        CycleMember(rank=line.rank, op=line.op, site=line.site, waits_for=line.waits_for) for line in witness
    )
    evidence = cycle_evidence(witness, cure)
    if is_cured_by_buffer and least_buffer_bytes is not None:
        evidence += (f"ends only where each channel holds {least_buffer_bytes} bytes of sends or more",)
    elif is_cured_by_buffer:
        evidence += ("ends where sends are buffered; how many bytes it takes is unknown, since sizes are",)
    num_behind = _num_stuck_ranks(graph) - len(ranks)
    if num_behind > 0:
        evidence += (f"{num_behind} other {'rank waits' if num_behind == 1 else 'ranks wait'} behind this cycle",)
    head = table.events[cycle[0][0][1]]
    return Finding(
        code="M104",
        severity=Severity.WARNING if is_assumed_buffered else Severity.ERROR,
        kind=Kind.DEADLOCK,
        cause=cause_of(table, cycle),
        certainty=certainty_of(observer),
        message=_title(ranks, len(witness)),
        waiting_ranks=tuple(ranks),
        cycle=members,
        phase=phase_of(head),
        evidence=evidence,
        next="give one of these lanes another order" if cure is None else f"{cure.text}   (judged: this passes)",
    )


def _num_stuck_ranks(graph: WaitGraph) -> int:
    table = graph.table
    return sum(table.node_size(node) for node in {table.node[e] for _, e in graph.heads()})


def leaf_finding(table: Table, leaf: Leaf, observer: Observer, cure: Cure | None) -> Finding:
    """M103 or M104 for a wait that nothing can end."""
    event = table.at(leaf.rank, leaf.event)
    row = columns(
        [
            (
                f"rank {leaf.rank}",
                f"slot {event.position}",
                brief_text(event),
                phase_text(event.phase),
                site_text(event) or "",
            )
        ]
    )
    match leaf.kind:
        case LeafKind.NO_RELEASE:
            credit = table.credits[table.arg[leaf.event]]
            return Finding(
                code="M104",
                severity=Severity.ERROR,
                kind=Kind.DEADLOCK,
                cause=Cause.CYCLE_CREDIT,
                certainty=certainty_of(observer),
                message=f"rank {leaf.rank} waits for credit {credit.name}, which is never given back: capacity "
                f"{credit.capacity}, acquired {table.number[leaf.event]} times before, released "
                f"{len(credit.releases)} times in all",
                waiting_ranks=(leaf.rank,),
                cycle=(
                    CycleMember(rank=leaf.rank, op=brief_text(event), site=site_text(event), waits_for=(leaf.rank,)),
                ),
                phase=phase_of(event),
                evidence=row,
                next="release the credit once for each acquire" if cure is None else cure.text,
            )
        case LeafKind.NO_SETTER:
            return Finding(
                code="M103",
                severity=Severity.ERROR,
                kind=Kind.MISSING,
                cause=Cause.STORE_WAIT,
                certainty=certainty_of(observer),
                message=f"rank {leaf.rank} waits for store key {table.keys[table.arg[leaf.event]]}, which no rank sets",
                waiting_ranks=(leaf.rank,),
                phase=phase_of(event),
                evidence=row,
                next="set the key on some rank, or drop the wait",
            )
        case LeafKind.NO_PARTNER:
            return _partner_finding(table, leaf, event, row)


def _partner_finding(table: Table, leaf: Leaf, event: Event, row: tuple[str, ...]) -> Finding:
    """M103 as a warning: in a trace that may stop anywhere, who has not come yet. A fact, no accusation."""
    del table
    verb = "has" if len(leaf.missing_ranks) == 1 else "have"
    where = f" of {event.body.group}" if isinstance(event.body, Collective) else ""
    return Finding(
        code="M103",
        severity=Severity.WARNING,
        kind=Kind.MISSING,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=f"{ranks_text(leaf.missing_ranks)} {verb} not made the call{where} that rank {leaf.rank} waits in",
        culprit_ranks=leaf.missing_ranks,
        waiting_ranks=(leaf.rank,),
        phase=phase_of(event),
        evidence=row,
        next="look at what these ranks do instead",
    )
