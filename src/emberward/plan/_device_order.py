"""One order of all calls of all communicators that share devices, worked out from the programs of the ranks.

[Note: one order on every device]
NCCL wants the operations of all communicators of a device issued in one order on all ranks (NCCL user guide, "Using
multiple NCCL communicators concurrently"; before 2.26 always, since then the order of launches has to agree). Nodes of
the precedence graph are calls: the k-th collective of a group, the k-th transfer from one rank to another in a group.
An edge leads from each call to the next that a rank issues. Where the graph is acyclic, any topological order is an
order that every rank follows, on every device. Where it has a cycle there is none, and a device that runs one call at a
time may stop for ever, although every lane by itself is right.

Ranks of one pipeline stand for all: a rank elsewhere in the mesh makes the same calls on groups that are those of its
own coordinates. Order the calls of the whole mesh by their place in the one pipeline's order, then by coordinates.

What this does not prove: that two kernels which are launched in one order make progress together on a device (blocks
of one may wait for the other to leave), or that a device's launch queue is deep enough.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from emberward.events import Barrier, Collective, Event, Group, Recv, Send


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCall:
    """The `number`-th call of `group`, counted from 0: a collective, or with `route` a transfer (sender, receiver)."""

    group: Group
    number: int
    route: tuple[int, int] | None = None

    def __str__(self) -> str:
        what = f"{self.group.label or self.group} call {self.number}"
        return what if self.route is None else f"{what} from {self.route[0]} to {self.route[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderConflict:
    """Two calls that one rank issues in the other order than another rank does, be it through calls between them."""

    first: DeviceCall
    second: DeviceCall
    rank: int
    opposed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOrder:
    """`calls` in an order that every rank follows; with a `conflict` there is no such order and `calls` is empty."""

    calls: tuple[DeviceCall, ...]
    num_calls: int
    num_groups: int
    conflict: OrderConflict | None

    @property
    def exists(self) -> bool:
        """Whether there is one order."""
        return self.conflict is None


def device_calls(program: Sequence[Event], *, has_transfers: bool) -> Iterator[DeviceCall]:
    """The calls of one rank in the order in which it issues them. Groups of one rank launch nothing."""
    seen: dict[tuple[Group, tuple[int, int] | None], int] = {}
    for event in program:
        match event.body:
            case Collective(group=group) | Barrier(group=group) if len(group.ranks) > 1:
                key: tuple[Group, tuple[int, int] | None] = (group, None)
            case Send(peer=peer, group=Group() as group) if has_transfers:
                key = (group, (event.rank, peer))
            case Recv(peer=peer, group=Group() as group) if has_transfers:
                key = (group, (peer, event.rank))
            case _:
                continue
        number = seen.get(key, 0)
        seen[key] = number + 1
        yield DeviceCall(group=key[0], number=number, route=key[1])


def device_order(programs: Mapping[int, Sequence[Event]], *, has_transfers: bool = False) -> DeviceOrder:
    """The order of the calls of all ranks in `programs`: the first topological one, by ranks then by place.

    Linear in events, times the logarithm of the number of ranks. See [Note: one order on every device].
    """
    calls: list[DeviceCall] = []
    numbers: dict[DeviceCall, int] = {}
    followers: list[dict[int, int]] = []
    place: list[tuple[int, int]] = []
    num_before: list[int] = []
    for rank, program in sorted(programs.items()):
        before: int | None = None
        for index, call in enumerate(device_calls(program, has_transfers=has_transfers)):
            number = numbers.setdefault(call, len(calls))
            if number == len(calls):
                calls.append(call)
                followers.append({})
                place.append((index, rank))
                num_before.append(0)
            place[number] = max(place[number], (index, rank))
            if before is not None and number not in followers[before]:
                followers[before][number] = rank
                num_before[number] += 1
            before = number
    ready = [(place[number], number, number) for number in range(len(calls)) if not num_before[number]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        *_, number = heapq.heappop(ready)
        order.append(number)
        for after in followers[number]:
            num_before[after] -= 1
            if num_before[after] == 0:
                heapq.heappush(ready, (place[after], len(order) + len(calls), after))
    is_whole = len(order) == len(calls)
    left = {calls[number] for number in set(range(len(calls))).difference(order)}
    return DeviceOrder(
        calls=tuple(calls[number] for number in order) if is_whole else (),
        num_calls=len(calls),
        num_groups=len({call.group for call in calls}),
        conflict=None if is_whole else _conflict(_named(calls, followers), left),
    )


def _named(
    calls: Sequence[DeviceCall], followers: Sequence[Mapping[int, int]]
) -> dict[DeviceCall, dict[DeviceCall, int]]:
    return {
        call: {calls[after]: rank for after, rank in each.items()} for call, each in zip(calls, followers, strict=True)
    }


def _conflict(followers: Mapping[DeviceCall, Mapping[DeviceCall, int]], left: set[DeviceCall]) -> OrderConflict:
    """Two neighbouring calls of a shortest cycle among the calls that no order holds."""
    best: list[DeviceCall] = []
    for start in sorted(left, key=str)[:MAX_STARTS]:
        path = _cycle_through(start, followers, left)
        if path and (not best or len(path) < len(best)):
            best = path
        if len(best) == 2:
            break
    first, second = best[0], best[1]
    return OrderConflict(first=first, second=second, rank=followers[first][second], opposed=followers[best[-1]][first])


MAX_STARTS = 256
"""Most calls from which a short cycle is searched."""


def _cycle_through(
    start: DeviceCall, followers: Mapping[DeviceCall, Mapping[DeviceCall, int]], left: set[DeviceCall]
) -> list[DeviceCall]:
    """The calls of a shortest cycle through `start`; empty when there is none."""
    came: dict[DeviceCall, DeviceCall] = {}
    queue = [start]
    for call in queue:
        for after in followers[call]:
            if after == start:
                path = [call]
                while path[-1] != start:
                    path.append(came[path[-1]])
                return path[::-1]
            if after in left and after not in came:
                came[after] = call
                queue.append(after)
    return []


def strays(programs: Mapping[int, Sequence[Event]], order: DeviceOrder, *, has_transfers: bool = False) -> list[int]:
    """The ranks that do not issue their calls in `order`, or issue one that the order does not have."""
    position = {call: number for number, call in enumerate(order.calls)}
    found = []
    for rank, program in programs.items():
        places = [position.get(call) for call in device_calls(program, has_transfers=has_transfers)]
        if not all(
            before is not None and after is not None and before < after for before, after in pairwise([-1, *places])
        ):
            found.append(rank)
    return found
