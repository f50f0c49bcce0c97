"""Who waits for whom in a stopped run, and the smallest cycle of such waits.

A head is an event at the front of its lane that has not completed. Every stopped lane has one; all that stands behind
it waits for it. Heads are concrete (rank, event), also where one node stands for a class of ranks.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from emberward.events import Barrier, Collective, GroupCreate, Lane, Recv, Send
from emberward.match._simulate import Run
from emberward.match._table import Step, Table
from emberward.match._verdict import BatchCompletion

SEARCH_BUDGET = 2_000_000
"""Most waits that the search for the smallest cycle follows before it takes the first cycle it can walk into."""

Head = tuple[int, int]
"""(rank, event id)."""


@dataclass(frozen=True, slots=True)
class WaitEdge:
    """A head waits for `awaited`, an event of `rank`, in front of which `head` stands (it may be the same event)."""

    rank: int
    awaited: int
    head: int


class LeafKind(StrEnum):
    """Why a head can never go on although it is in no cycle."""

    NO_PARTNER = "no_partner"
    NO_SETTER = "no_setter"
    NO_RELEASE = "no_release"


@dataclass(frozen=True, slots=True)
class Leaf:
    """`event` of `rank` waits for something that does not exist; `missing_ranks` lack the call."""

    kind: LeafKind
    rank: int
    event: int
    missing_ranks: tuple[int, ...] = ()


@dataclass(slots=True)
class Taint:
    """Meetings and channels already found wrong, with the call number from which on their waits are explained.

    0 where a call is missing or extra: like calls in a row do not tell where the numbers began to shift.
    """

    meetings: dict[int, int] = field(default_factory=dict)
    channels: dict[int, int] = field(default_factory=dict)

    def covers(self, table: Table, e: int) -> bool:
        """Whether what `e` waits for is the consequence of a fault that has a finding of its own."""
        match table.step[e]:
            case Step.MEET:
                first = self.meetings.get(table.instance_meeting[table.arg[e]])
            case Step.SEND | Step.RECV:
                first = self.channels.get(table.arg[e])
            case _:
                return False
        return first is not None and table.number[e] >= first


class WaitGraph:
    """The waits of a stopped run, found on demand."""

    def __init__(self, table: Table, run: Run, taint: Taint) -> None:
        self.table = table
        self.run = run
        self.taint = taint
        self._front: dict[tuple[int, Lane], int] = {}
        for unit, events in enumerate(table.unit_events):
            if all(run.done[e] for e in events):
                continue
            before = table.unit_before[unit]
            if before < 0 or all(run.done[e] for e in table.unit_events[before]):
                event = table.events[events[0]]
                self._front[(table.node[events[0]], event.lane)] = unit
        self._edges: dict[Head, list[WaitEdge]] = {}
        self._met: dict[tuple[int, int], tuple[list[tuple[int, int]], tuple[int, ...]]] = {}
        """What a concrete call of a group lacks; by the identity of its member list, which the linker keeps."""

    def heads(self) -> list[Head]:
        """The heads of every node's standing rank, in the table's order."""
        table = self.table
        return sorted(
            (table.linker.rank_of(node), e)
            for (node, _), unit in self._front.items()
            for e in table.unit_events[unit]
            if not self.run.done[e]
        )

    def fronts(self) -> list[Head]:
        """The heads, with the completed members of a batch that ends together."""
        table, is_joint = self.table, self.table.batches is BatchCompletion.TOGETHER
        return sorted(
            (table.linker.rank_of(node), e)
            for (node, _), unit in self._front.items()
            for e in table.unit_events[unit]
            if is_joint or not self.run.done[e]
        )

    def in_front_of(self, e: int) -> list[int]:
        """The uncompleted events at the front of the lane in which `e` stands."""
        table = self.table
        unit = self._front[(table.node[e], table.events[e].lane)]
        if unit == table.unit[e]:
            return [e]
        return [other for other in table.unit_events[unit] if not self.run.done[other]]

    def needs(self, rank: int, e: int) -> tuple[list[tuple[int, int]], Leaf | None]:
        """What the head `e` of `rank` waits for as (rank, event id), or why nothing can help it."""
        table, run = self.table, self.run
        if not run.started[e]:
            unit = table.unit_events[table.unit[e]]
            own = [t for member in unit for t in table.targets.get(member, ())]
            return [(rank, t) for t in own if not run.done[t]], None
        body = table.events[e].body
        match table.step[e]:
            case Step.WAIT:
                return [(rank, t) for t in table.targets.get(e, ()) if not run.done[t]], None
            case Step.MEET:
                if not isinstance(body, Collective | Barrier | GroupCreate):
                    raise TypeError(f"{body} is no meeting")
                return self._meeting_needs(rank, e, body)
            case Step.SEND | Step.RECV:
                if not isinstance(body, Send | Recv):
                    raise TypeError(f"{body} is no send or receive")
                channel, k = table.channels[table.arg[e]], table.number[e]
                side = channel.recvs if isinstance(body, Send) else channel.sends
                peer = table.linker.peer(rank, body)
                if k >= len(side):
                    return [], Leaf(LeafKind.NO_PARTNER, rank, e, (peer,))
                return [(peer, side[k])], None
            case Step.ACQUIRE:
                credit = table.credits[table.arg[e]]
                short = table.number[e] - credit.capacity + 1
                left = [t for t in credit.releases if not run.done[t]]
                if len(credit.releases) < short:
                    return [], Leaf(LeafKind.NO_RELEASE, rank, e)
                return [(rank, left[0])], None
            case Step.STORE_WAIT:
                setters = [t for t in table.key_setters[table.arg[e]] if not run.done[t]]
                if not setters:
                    return [], Leaf(LeafKind.NO_SETTER, rank, e)
                return [(table.linker.rank_of(table.node[setters[0]]), setters[0])], None
            case _:
                return [], None

    def _meeting_needs(
        self, rank: int, e: int, body: Collective | Barrier | GroupCreate
    ) -> tuple[list[tuple[int, int]], Leaf | None]:
        table, k = self.table, self.table.number[e]
        members = table.linker.members(rank, body)
        known = self._met.get((id(members), table.arg[e]))
        if known is not None:
            needs, missing_ranks = known
            return needs, Leaf(LeafKind.NO_PARTNER, rank, e, missing_ranks) if missing_ranks else None
        meeting = table.meetings[table.instance_meeting[table.arg[e]]]
        found: list[tuple[int, int]] = []
        missing: list[int] = []
        for other, party in members:
            if party is None:
                continue
            calls = meeting.calls.get(party, [])
            if k >= len(calls):
                missing.append(other)
            elif not self.run.started[calls[k]]:
                found.append((other, calls[k]))
        self._met[(id(members), table.arg[e])] = (found, tuple(missing))
        return found, Leaf(LeafKind.NO_PARTNER, rank, e, tuple(missing)) if missing else None

    def concrete_call(self, head: Head) -> tuple[int, int] | None:
        """A key that all started heads of one concrete call of a group share; None for other heads."""
        rank, e = head
        body = self.table.events[e].body
        if not self.run.started[e] or not isinstance(body, Collective | Barrier | GroupCreate):
            return None
        return id(self.table.linker.members(rank, body)), self.table.arg[e]

    def edges(self, head: Head) -> list[WaitEdge]:
        """The waits of `head` for other heads; none where a fault already explains it."""
        cached = self._edges.get(head)
        if cached is None:
            rank, e = head
            cached = []
            if not (self.run.started[e] and self.taint.covers(self.table, e)):
                for other, awaited in self.needs(rank, e)[0]:
                    cached += [WaitEdge(rank=other, awaited=awaited, head=front) for front in self.in_front_of(awaited)]
            self._edges[head] = cached
        return cached

    def leaves(self) -> list[Leaf]:
        """Heads that wait for what does not exist and that no fault found earlier explains."""
        found = []
        for rank, e in self.heads():
            if self.run.started[e] and not self.taint.covers(self.table, e):
                leaf = self.needs(rank, e)[1]
                if leaf is not None:
                    found.append(leaf)
        return found


def smallest_cycle(graph: WaitGraph) -> list[tuple[Head, WaitEdge]]:
    """The shortest cycle of waits as (head, its wait for the next), starting at the least rank; empty if there is none.

    Within SEARCH_BUDGET the shortest through any standing rank; beyond it, the first cycle found by walking.
    """
    starts = graph.heads()
    if not _has_cycle(graph, starts):
        return []
    spent, limit = 0, 1
    while limit <= 2 * max(1, len(starts)) and spent < SEARCH_BUDGET:
        best: list[tuple[Head, WaitEdge]] = []
        for start in starts:
            depth = limit if not best else len(best) - 1
            if depth == 0 or spent >= SEARCH_BUDGET:
                break
            found, cost = _cycle_through(graph, start, depth)
            spent += cost
            if found:
                best = found
        if best:
            return _turned(best)
        limit *= 2
    return _turned(_walk(graph, starts))


def _has_cycle(graph: WaitGraph, starts: list[Head]) -> bool:
    """Whether any head waits for itself in the end. Judged on nodes: a cycle of classes is one of ranks, since every
    rank of a class has an edge to some rank of the next and there are finitely many ranks. Linear in waits."""
    node_of = graph.table.linker.node_of
    state: dict[int, bool] = {}
    for start in starts:
        if start[1] in state:
            continue
        stack = [(start[1], iter(graph.edges(start)))]
        state[start[1]] = True
        while stack:
            e, edges = stack[-1]
            edge = next(edges, None)
            if edge is None:
                state[e] = False
                stack.pop()
            elif (is_open := state.get(edge.head)) is None:
                node = node_of(edge.rank)
                if node is None:
                    raise ValueError(f"rank {edge.rank} waits and has no node")
                state[edge.head] = True
                stack.append((edge.head, iter(graph.edges((graph.table.linker.rank_of(node), edge.head)))))
            elif is_open:
                return True
    return False


def _cycle_through(graph: WaitGraph, start: Head, depth: int) -> tuple[list[tuple[Head, WaitEdge]], int]:
    """(the shortest cycle through `start` of at most `depth` heads, waits followed)."""
    came_from: dict[Head, tuple[Head, WaitEdge]] = {}
    queue: deque[tuple[Head, int]] = deque([(start, 0)])
    expanded: set[tuple[int, int]] = set()
    cost = 0
    while queue:
        head, distance = queue.popleft()
        if distance >= depth:
            break
        call = graph.concrete_call(head)
        if call is not None and distance > 0:
            if call in expanded:
                continue
            expanded.add(call)
        for edge in graph.edges(head):
            cost += 1
            following = (edge.rank, edge.head)
            if following == start:
                path = [(head, edge)]
                while head != start:
                    head, edge = came_from[head]
                    path.append((head, edge))
                return path[::-1], cost
            if following not in came_from:
                came_from[following] = (head, edge)
                queue.append((following, distance + 1))
    return [], cost


def _walk(graph: WaitGraph, starts: list[Head]) -> list[tuple[Head, WaitEdge]]:
    """A cycle found by depth-first search, linear in waits."""
    closed: set[Head] = set()
    for start in starts:
        path: list[tuple[Head, WaitEdge | None]] = [(start, None)]
        index = {start: 0}
        stack = [iter(graph.edges(start))]
        while stack:
            edge = next(stack[-1], None)
            if edge is None:
                stack.pop()
                head, _ = path.pop()
                index.pop(head)
                closed.add(head)
                continue
            path[-1] = (path[-1][0], edge)
            following = (edge.rank, edge.head)
            if following in index:
                return [(head, e) for head, e in path[index[following] :] if e is not None]
            if following not in closed:
                index[following] = len(path)
                path.append((following, None))
                stack.append(iter(graph.edges(following)))
    return []


def _turned(cycle: list[tuple[Head, WaitEdge]]) -> list[tuple[Head, WaitEdge]]:
    if not cycle:
        return []
    first = min(range(len(cycle)), key=lambda i: cycle[i][0])
    return cycle[first:] + cycle[:first]
