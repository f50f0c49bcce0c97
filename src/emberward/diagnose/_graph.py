"""Who waits for whom, from the calls that have not completed, and where all waiting ends.

[Note: where waiting ends]
A rank waits in its oldest call that has not completed (its head). A collective waits for those members that have not
issued it, or that hold an older call open before it; a send or receive waits for its peer. The strongly connected parts
of this graph without a way out are the roots: a rank with no open call (its host is busy or stuck), a rank without a
dump (unknown), a call that all members have issued (a stalled device or link, or one that just runs), or a cycle.
Everyone else is a victim. Source: docs/explain.md, "The rule".
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from emberward.diagnose._calls import Call, GroupName, RankFlight
from emberward.diagnose._groups import Groups, GroupView

OpKey = tuple[GroupName, tuple[int, ...], int]
"""(group name, members, seq) of a collective; for a send or receive the two ranks as members and -1."""
Node = int | OpKey


class RootKind(StrEnum):
    """What waiting ends in."""

    HOST = "host"
    UNKNOWN = "unknown"
    STALL = "stall"
    CYCLE = "cycle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One end of all waiting: its ranks, its calls, and the ranks that wait for it, directly or through others."""

    kind: RootKind
    ranks: tuple[int, ...]
    ops: tuple[OpKey, ...]
    victims: tuple[int, ...]


class WaitGraph:
    """The graph of [Note: where waiting ends]."""

    def __init__(self, flights: Mapping[int, RankFlight], groups: Groups, busy: frozenset[int] = frozenset()) -> None:
        """`busy`: ranks whose stacks show that their host does not wait in any call, whatever is still open."""
        self.flights = flights
        self.groups = groups
        self.busy = busy
        self.edges: dict[Node, set[Node]] = {}
        self.calls: dict[OpKey, dict[int, Call]] = {}
        for rank in sorted(flights):
            self._add_rank(rank)

    def _add_rank(self, rank: int) -> None:
        flight = self.flights[rank]
        head = flight.head
        self.edges.setdefault(rank, set())
        if head is None or rank in self.busy:
            return
        for call in self._head_calls(flight):
            view = self.groups.of(flight.groups[call.group])
            key = self._p2p_key(rank, call, view) if call.is_p2p else (call.group, view.members, call.seq)
            if key is None:
                continue
            self.edges[rank].add(key)
            self.calls.setdefault(key, {})[rank] = call
            if key in self.edges and not call.is_p2p:
                continue
            targets = self._p2p_targets(rank, call, view) if call.is_p2p else self._targets(key, view)
            self.edges.setdefault(key, set()).update(targets)
            for target in targets:
                self.edges.setdefault(target, set())

    @staticmethod
    def _head_calls(flight: RankFlight) -> list[Call]:
        """The head; for sends and receives, the run of them that was issued together."""
        head = flight.pending[0]
        if not head.is_p2p:
            return [head]
        run = []
        for call in flight.pending:
            if not call.is_p2p or call.group != head.group or call.seq != head.seq:
                break
            run.append(call)
        return run[:1] if len({call.is_send for call in run}) == 1 else run

    def _targets(self, key: OpKey, view: GroupView) -> set[Node]:
        name, _, seq = key
        absent: set[Node] = set()
        behind: set[Node] = set()
        for member in view.members:
            flight = self.flights.get(member)
            part = None if flight is None else flight.groups.get(name)
            if part is None or part.enqueued < seq:
                absent.add(member)
            elif part.completed < seq and flight is not None and flight.head is not None:
                head = flight.head
                if (head.group, head.seq, head.is_p2p) != (name, seq, False):
                    behind.add(member)
        return absent or behind

    def _peer(self, call: Call, view: GroupView) -> int | None:
        return None if call.peer is None or call.peer >= len(view.members) else view.members[call.peer]

    def _p2p_key(self, rank: int, call: Call, view: GroupView) -> OpKey | None:
        peer = self._peer(call, view)
        return None if peer is None else (call.group, (rank, peer) if call.is_send else (peer, rank), -1)

    def _p2p_targets(self, rank: int, call: Call, view: GroupView) -> set[Node]:
        peer = self._peer(call, view)
        if peer is None:
            return set()
        is_inside = peer in self.flights and peer not in self.busy
        head = self.flights[peer].head if is_inside else None
        is_at = head is not None and self.is_to(head, peer, rank, view, is_send=not call.is_send)
        return set() if is_at else {peer}

    def is_to(self, call: Call, rank: int, peer: int, view: GroupView, *, is_send: bool) -> bool:
        """Whether a call of `rank` is a send to `peer` of the group, or a receive from it."""
        is_one = call.is_p2p and call.group == view.name and call.is_send == is_send
        return is_one and self._peer(call, view) == peer and rank in view.members

    def roots(self) -> list[Root]:
        """The ends of all waiting that somebody waits for, the one with most victims first."""
        component = components(self.edges)
        parts: dict[int, list[Node]] = defaultdict(list)
        waiting_for: dict[Node, list[Node]] = defaultdict(list)
        for node, targets in self.edges.items():
            parts[component[node]].append(node)
            for target in targets:
                waiting_for[target].append(node)
        found = []
        for number, nodes in parts.items():
            if any(component[target] != number for node in nodes for target in self.edges[node]):
                continue
            ranks = tuple(sorted(node for node in nodes if isinstance(node, int)))
            ops = tuple(node for node in nodes if not isinstance(node, int))
            seen, stack = set(nodes), list(nodes)
            while stack:
                new = [node for node in waiting_for[stack.pop()] if node not in seen]
                seen.update(new)
                stack += new
            victims = tuple(sorted({node for node in seen if isinstance(node, int)} - set(ranks)))
            if ops or victims:
                found.append(Root(kind=self._kind(ranks, ops), ranks=ranks, ops=ops, victims=victims))
        return sorted(found, key=lambda root: (-len(root.victims), root.ranks))

    def _kind(self, ranks: tuple[int, ...], ops: tuple[OpKey, ...]) -> RootKind:
        if ops:
            return RootKind.CYCLE if ranks else RootKind.STALL
        return RootKind.HOST if ranks[0] in self.flights else RootKind.UNKNOWN


def components(edges: Mapping[Node, Iterable[Node]]) -> dict[Node, int]:
    """The number of each node's strongly connected component. Iterative. Source: Tarjan 1972."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    out: dict[Node, int] = {}
    stack: list[Node] = []
    for start in edges:
        if start in index:
            continue
        work = [(start, iter(edges.get(start, ())))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    work.append((target, iter(edges.get(target, ()))))
                    break
                if target not in out:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    while True:
                        member = stack.pop()
                        out[member] = index[node]
                        if member == node:
                            break
    return out
