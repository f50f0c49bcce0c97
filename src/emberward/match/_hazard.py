"""Order between communicators that share a device: what the lanes leave open although the trace ends. (M107)

NCCL wants the operations of all communicators of a device in one order on all ranks: before 2.26 always, since then
unless NCCL_LAUNCH_ORDER_IMPLICIT=1 and the hosts launch in one order (NCCL user guide, "Using multiple NCCL
communicators concurrently"). Nodes of the precedence graph are collective instances (group, call number); an edge
leads from one to the next that a rank issues. Acyclic: one order exists. On a cycle, a run in which each lane has a
device of its own ends (the simulator has just shown it), and a device that runs one collective at a time may not.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise

from emberward.events import Barrier, Collective, Lane, LaneKind, Observer
from emberward.findings import Cause, CycleMember, Finding, Kind, Severity
from emberward.match._table import Table
from emberward.match._words import certainty_of, columns, op_text, phase_text, ranks_text, site_text

MAX_STARTS = 4_096
"""Most instances from which a short cycle of orders is searched."""

Order = tuple[int, int, int]
"""(node, event id issued first, event id issued after)."""


def _chains(table: Table) -> list[list[int]]:
    """For each node, its collectives' event ids in the order of issue."""
    kinds = (Collective, Barrier)
    return [[e for e in events if isinstance(table.events[e].body, kinds)] for events in table.node_events]


def order_cycle(table: Table) -> list[Order]:
    """A short cycle of issue orders, empty when one order fits every rank. Linear but for the witness."""
    chains = _chains(table)
    followers: dict[int, dict[int, Order]] = {}
    degree: dict[int, int] = {}
    for node, chain in enumerate(chains):
        for a, b in pairwise(chain):
            left, right = table.arg[a], table.arg[b]
            if right not in followers.setdefault(left, {}):
                followers[left][right] = (node, a, b)
                degree[right] = degree.get(right, 0) + 1
    ready = [x for x in followers if degree.get(x, 0) == 0]
    left_over = {x: dict(ys) for x, ys in followers.items()}
    while ready:
        for y in left_over.pop(ready.pop(), {}):
            degree[y] -= 1
            if degree[y] == 0:
                ready.append(y)
    left_over = {x: ys for x, ys in left_over.items() if degree.get(x, 0) > 0 or x in ys}
    if not left_over:
        return []
    cycle = _shortest(left_over)
    return _direct(table, chains, cycle) or _merged(cycle)


def _shortest(graph: dict[int, dict[int, Order]]) -> list[Order]:
    best: list[Order] = []
    for start in list(graph)[:MAX_STARTS]:
        came: dict[int, tuple[int, Order]] = {}
        queue = deque([(start, 0)])
        while queue:
            x, distance = queue.popleft()
            if best and distance + 1 >= len(best):
                break
            for y, order in graph.get(x, {}).items():
                if y == start:
                    path = [order]
                    while x != start:
                        x, order = came[x]
                        path.append(order)
                    best = path[::-1]
                    queue.clear()
                    break
                if y not in came:
                    came[y] = (x, order)
                    queue.append((y, distance + 1))
        if len(best) == 2:
            break
    return best


def _direct(table: Table, chains: Sequence[Sequence[int]], cycle: Sequence[Order]) -> list[Order]:
    """Two collectives of the cycle that two nodes issue in opposite order; empty when there are none."""
    wanted = {table.arg[a] for _, a, _ in cycle}
    seen: dict[tuple[int, int], Order] = {}
    for node in sorted({node for node, _, _ in cycle}):
        own = [e for e in chains[node] if table.arg[e] in wanted]
        for i, a in enumerate(own):
            for b in own[i + 1 :]:
                opposite = seen.get((table.arg[b], table.arg[a]))
                if opposite is not None:
                    return [opposite, (node, a, b)]
                seen.setdefault((table.arg[a], table.arg[b]), (node, a, b))
    return []


def _merged(cycle: Sequence[Order]) -> list[Order]:
    """The cycle with consecutive orders of one node made one."""
    merged: list[Order] = []
    for node, a, b in cycle:
        if merged and merged[-1][0] == node:
            merged[-1] = (node, merged[-1][1], b)
        else:
            merged.append((node, a, b))
    if len(merged) > 1 and merged[0][0] == merged[-1][0]:
        merged[0] = (merged[0][0], merged[-1][1], merged[0][2])
        merged.pop()
    return merged


def thread_races(table: Table) -> Iterator[tuple[int, int]]:
    """Yields for each node its first two collectives that share ranks and come from host lanes in no order."""
    for events in table.node_events:
        calls = [e for e in events if isinstance(table.events[e].body, Collective | Barrier)]
        issuers = {e: _issuer(table, e) for e in calls}
        if len({lane for lane, _ in filter(None, issuers.values())}) < 2:
            continue
        clocks = _clocks(table, events)
        last: dict[Lane, int] = {}
        for y in calls:
            issuer = issuers[y]
            if issuer is None:
                continue
            found = next(
                (x for lane, x in last.items() if lane != issuer[0] and _is_race(table, clocks, issuers, x, y)), None
            )
            if found is not None:
                yield found, y
                break
            last[issuer[0]] = y


def _is_race(
    table: Table, clocks: dict[int, dict[Lane, int]], issuers: dict[int, tuple[Lane, int] | None], x: int, y: int
) -> bool:
    left, right = table.events[x].body, table.events[y].body
    if not (isinstance(left, Collective | Barrier) and isinstance(right, Collective | Barrier)):
        return False
    if len(set(left.group.ranks) & set(right.group.ranks)) < 2:
        return False
    issuer = issuers[x]
    return issuer is not None and clocks[y].get(issuer[0], -1) < issuer[1]


def _issuer(table: Table, e: int) -> tuple[Lane, int] | None:
    """(host lane, position) from which the event is issued; None when the trace does not tell."""
    event = table.events[e]
    if event.lane.kind is LaneKind.HOST:
        return event.lane, event.position
    hosts = [ref for ref in event.after if ref.lane.kind is LaneKind.HOST]
    return (hosts[-1].lane, hosts[-1].position) if hosts else None


def _clocks(table: Table, events: range) -> dict[int, dict[Lane, int]]:
    """For each event, the last position of each lane that surely completed before it; forward waits are left out."""
    clocks: dict[int, dict[Lane, int]] = {}
    last: dict[Lane, int] = {}
    for e in events:
        event = table.events[e]
        clock: dict[Lane, int] = {}
        sources = [t for t in table.targets.get(e, ()) if t in clocks]
        if event.lane in last:
            sources.append(last[event.lane])
        for t in sources:
            for lane, position in clocks[t].items():
                clock[lane] = max(clock.get(lane, -1), position)
        clock[event.lane] = event.position
        clocks[e] = clock
        last[event.lane] = e
    return clocks


def hazard_findings(table: Table, observer: Observer) -> Iterator[Finding]:
    """Yields warnings M107: one for orders that differ between ranks, one for each kind of thread race."""
    cycle = order_cycle(table)
    if cycle:
        yield _order_finding(table, cycle, observer)
    for x, y in thread_races(table):
        yield _race_finding(table, x, y, observer)
        break


def _order_finding(table: Table, cycle: Sequence[Order], observer: Observer) -> Finding:
    rows, members = [], []
    ranks = [table.linker.rank_of(node) for node, _, _ in cycle]
    for i, (rank, (_, a, b)) in enumerate(zip(ranks, cycle, strict=True)):
        first, second = table.at(rank, a), table.at(rank, b)
        rows.append(
            (
                f"rank {rank}",
                f"issues {op_text(first)}",
                phase_text(first.phase),
                site_text(first) or "",
                f"before {op_text(second)}",
                phase_text(second.phase),
                site_text(second) or "",
            )
        )
        members.append(
            CycleMember(rank=rank, op=op_text(first), site=site_text(first), waits_for=(ranks[(i + 1) % len(ranks)],))
        )
    evidence = columns(rows)
    evidence += (
        "hazard, not certain: the calls are on different lanes, so they end where a device runs them at the same time",
    )
    return Finding(
        code="M107",
        severity=Severity.WARNING,
        kind=Kind.ORDER_HAZARD,
        cause=Cause.CYCLE_COLLECTIVE,
        certainty=certainty_of(observer),
        message=f"{ranks_text(set(ranks))} issue collectives that share devices in different orders",
        waiting_ranks=tuple(sorted(set(ranks))),
        cycle=tuple(members),
        evidence=evidence,
        next="issue them in one order on all ranks, or let one wait for the other on every rank",
    )


def _race_finding(table: Table, x: int, y: int, observer: Observer) -> Finding:
    left, right = table.standing(x), table.standing(y)
    rows = columns(
        [
            (f"lane {event.lane}", op_text(event), phase_text(event.phase), site_text(event) or "")
            for event in (left, right)
        ]
    )
    return Finding(
        code="M107",
        severity=Severity.WARNING,
        kind=Kind.ORDER_HAZARD,
        cause=Cause.CYCLE_COLLECTIVE,
        certainty=certainty_of(observer),
        message=f"two host threads of rank {left.rank} issue collectives that share devices in no fixed order",
        waiting_ranks=(left.rank,),
        evidence=(*rows, "hazard: nothing orders the two threads, so another rank may issue them the other way round"),
        next="issue both from one thread, or let one thread wait for the other",
    )
