"""A trace compiled to integers: what the simulator runs and the other judges look up.

[Note: nodes and parties]
A node is a program that the simulator steps: one rank, or one class of ranks that provably step alike (see [Note:
symmetry] in _roles.py). A meeting is a group, or a class of like groups; a party is one (node, slot) that calls it,
where the slot tells apart two like groups in which a node takes part. In a plain trace a node is a rank and each
meeting has one slot for each rank.

[Note: call numbers]
Calls are numbered by the trace's order within a rank: the k-th call of a meeting on every party meet, the k-th send
and the k-th receive of a channel pair, the k-th acquire of a credit needs (k - capacity + 1) releases. That makes the
matching deterministic, hence the fixpoint unique (reliability of marked graphs: any fair schedule ends in the same
state). Where two lanes could issue in another order, M107 says so.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol, assert_never

from emberward.events import (
    Acquire,
    Barrier,
    Collective,
    Compute,
    Event,
    Group,
    GroupCreate,
    HostSync,
    Lane,
    Recv,
    Ref,
    Release,
    Send,
    StoreSet,
    StoreWait,
    Trace,
    Wait,
)
from emberward.match._verdict import BatchCompletion

Party = tuple[int, int]
"""(node, slot). See [Note: nodes and parties]."""


class Step(IntEnum):
    """What an event needs, once started, to complete."""

    FREE = 0
    WAIT = 1
    MEET = 2
    SEND = 3
    RECV = 4
    ACQUIRE = 5
    RELEASE = 6
    STORE_SET = 7
    STORE_WAIT = 8


@dataclass(slots=True)
class Meeting:
    """Who calls a group, and each party's calls in order, as event ids. Unobserved members are no parties."""

    group: Group
    is_creation: bool
    calls: dict[Party, list[int]]
    members: Sequence[tuple[int, Party | None]]


@dataclass(slots=True)
class Channel:
    """Sends and receives of one (group, source, destination, tag), in order, as event ids."""

    source: int
    destination: int
    tag: int | None
    sends: list[int] = field(default_factory=list)
    recvs: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Credit:
    """One bounded thing of one node."""

    node: int
    name: str
    capacity: int
    acquires: list[int] = field(default_factory=list)
    releases: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the trace that cannot be judged: an event id and what is wrong with it."""

    event: int
    text: str


class Linker(Protocol):
    """Tells a compiler who meets whom."""

    @property
    def is_plain(self) -> bool:
        """Every node is one rank."""

    def rank_of(self, node: int) -> int:
        """A rank of the node: the one that stands for it."""

    def size_of(self, node: int) -> int:
        """How many ranks the node stands for."""

    def node_of(self, rank: int) -> int | None:
        """The node that steps `rank`; None when it was not observed."""

    def meeting(self, node: int, body: Collective | Barrier | GroupCreate) -> tuple[Hashable, int]:
        """The key of the meeting that `body` calls, and the slot by which `node` takes part."""

    def members(self, rank: int, body: Collective | Barrier | GroupCreate) -> Sequence[tuple[int, Party | None]]:
        """Every rank that must call with `rank`, with its party; None for one that was not observed."""

    def channel(self, node: int, body: Send | Recv) -> Hashable:
        """The key that a send and its receives share."""

    def peer(self, rank: int, body: Send | Recv) -> int:
        """The global rank at the other end, for `rank`."""

    def event_at(self, rank: int, event: Event) -> Event:
        """The node's event as `rank` runs it."""


class TraceLinker:
    """The linker of a plain trace, where a node is a rank."""

    @property
    def is_plain(self) -> bool:
        """Every node is one rank."""
        return True

    def __init__(self, trace: Trace) -> None:
        self._ranks = sorted(trace.events)
        self._node = {rank: node for node, rank in enumerate(self._ranks)}
        self._world = tuple(range(trace.world_size))
        self._members: dict[tuple[int, ...], list[tuple[int, Party | None]]] = {}

    def rank_of(self, node: int) -> int:
        """A rank of the node: the one that stands for it."""
        return self._ranks[node]

    def size_of(self, node: int) -> int:
        """How many ranks the node stands for."""
        del node
        return 1

    def node_of(self, rank: int) -> int | None:
        """The node that steps `rank`; None when it was not observed."""
        return self._node.get(rank)

    def meeting(self, node: int, body: Collective | Barrier | GroupCreate) -> tuple[Hashable, int]:
        """The key of the meeting that `body` calls, and the slot by which `node` takes part."""
        if isinstance(body, GroupCreate):
            return (body.members, body.group), 0
        return body.group, 0

    def members(self, rank: int, body: Collective | Barrier | GroupCreate) -> Sequence[tuple[int, Party | None]]:
        """Every rank that must call with `rank`, with its party; None for one that was not observed."""
        del rank
        ranks = body.group.ranks
        if isinstance(body, GroupCreate):
            ranks = self._world if body.members is None else body.members
        found = self._members.get(ranks)
        if found is None:
            found = [(r, (n, 0) if (n := self._node.get(r)) is not None else None) for r in ranks]
            self._members[ranks] = found
        return found

    def channel(self, node: int, body: Send | Recv) -> Hashable:
        """The key that a send and its receives share."""
        rank = self._ranks[node]
        ends = (rank, body.peer) if isinstance(body, Send) else (body.peer, rank)
        return body.group, ends, body.tag

    def peer(self, rank: int, body: Send | Recv) -> int:
        """The global rank at the other end, for `rank`."""
        del rank
        return body.peer

    def event_at(self, rank: int, event: Event) -> Event:
        """The event itself."""
        del rank
        return event


class Table:
    """A compiled trace. Lists run over event ids or unit ids; a unit is one event, or one batch issued as one call."""

    def __init__(self, linker: Linker, batches: BatchCompletion) -> None:
        self.linker = linker
        self.batches = batches
        self.events: list[Event] = []
        self.node: list[int] = []
        self.step: list[Step] = []
        self.unit: list[int] = []
        self.arg: list[int] = []
        """Meeting instance, channel, credit or store key of the event; -1 for steps that have none."""
        self.number: list[int] = []
        """The event's call number in its meeting, channel or credit. See [Note: call numbers]."""
        self.pending: list[int] = []
        """How many events a Wait or HostSync waits for."""
        self.waiters: dict[int, list[int]] = {}
        self.openers: dict[int, list[int]] = {}
        """For an event: the units that name it in `after`."""
        self.targets: dict[int, list[int]] = {}
        """The inverse of `waiters` and `openers`: what an event or its unit waits for, besides its lane."""
        self.unit_events: list[tuple[int, ...]] = []
        self.unit_need: list[int] = []
        self.unit_next: list[int] = []
        self.unit_before: list[int] = []
        self.meetings: list[Meeting] = []
        self.instance_meeting: list[int] = []
        self.instance_events: list[list[int]] = []
        self.instance_need: list[int] = []
        self.channels: list[Channel] = []
        self.credits: list[Credit] = []
        self.keys: list[str] = []
        self.key_setters: list[list[int]] = []
        self.open_steps: list[int] = []
        """Events that only an unobserved rank can serve: they complete when they start."""
        self.problems: list[Problem] = []
        self.node_events: list[range] = []

    def at(self, rank: int, e: int) -> Event:
        """The event as `rank` runs it."""
        return self.linker.event_at(rank, self.events[e])

    def standing(self, e: int) -> Event:
        """The event as the standing rank of its node runs it."""
        return self.at(self.linker.rank_of(self.node[e]), e)

    @property
    def is_plain(self) -> bool:
        """Every node is one rank."""
        return self.linker.is_plain

    def node_size(self, node: int) -> int:
        """How many ranks the node stands for."""
        return self.linker.size_of(node)


@dataclass(slots=True)
class _LaneState:
    """One lane while its program is compiled."""

    events: list[int] = field(default_factory=list)
    last_unit: int | None = None
    last_batch: int | None = None


class _Compiler:
    """Fills a table, one node's program after another."""

    def __init__(self, linker: Linker, batches: BatchCompletion, capacity: Callable[[int, str], int | None]) -> None:
        self.table = Table(linker, batches)
        self._capacity = capacity
        self._meetings: dict[tuple[bool, Hashable], int] = {}
        self._channels: dict[Hashable, int] = {}
        self._credits: dict[tuple[int, str], int] = {}
        self._keys: dict[str, int] = {}

    def add_program(self, events: Sequence[Event]) -> None:
        """Appends the next node."""
        table, node, base = self.table, len(self.table.node_events), len(self.table.events)
        lanes: dict[Lane, _LaneState] = {}
        late: list[tuple[int, Ref, bool]] = []
        seen: Lane | None = None
        lane = _LaneState()
        for e, event in enumerate(events, start=base):
            if event.lane is not seen:
                seen = event.lane
                lane = lanes.setdefault(seen, _LaneState())
            table.events.append(event)
            table.node.append(node)
            table.pending.append(0)
            lane.events.append(e)
            self._place(e, event, lane)
            if event.after:
                late.extend((e, ref, False) for ref in event.after)
            self._classify(e, node, event, lanes, late)
        table.node_events.append(range(base, len(table.events)))
        for e, ref, is_wait in late:
            found = lanes.get(ref.lane)
            if found is None or not 0 <= ref.position < len(found.events):
                table.problems.append(Problem(e, f"names event {ref.position} of lane {ref.lane}, which is not there"))
            else:
                self._depend(e, found.events[ref.position], is_wait=is_wait)

    def _place(self, e: int, event: Event, lane: _LaneState) -> None:
        """Puts the event into the unit of the one before it if both are of one batch, else into a new one."""
        table, previous = self.table, lane.last_unit
        body = event.body
        batch = body.batch if isinstance(body, Send | Recv) else None
        if previous is not None and batch is not None and lane.last_batch == batch:
            unit = previous
            table.unit_events[unit] += (e,)
        else:
            unit = len(table.unit_events)
            table.unit_events.append((e,))
            table.unit_next.append(-1)
            if previous is None:
                table.unit_need.append(0)
                table.unit_before.append(-1)
            else:
                table.unit_need.append(len(table.unit_events[previous]))
                table.unit_before.append(previous)
                table.unit_next[previous] = unit
            lane.last_unit, lane.last_batch = unit, batch
        table.unit.append(unit)

    def _depend(self, e: int, target: int, *, is_wait: bool) -> None:
        table = self.table
        own = table.unit[e]
        unit = table.unit_events[table.unit[target]]
        for t in unit if table.batches is BatchCompletion.TOGETHER else (target,):
            table.targets.setdefault(e, []).append(t)
            if is_wait:
                table.pending[e] += 1
                table.waiters.setdefault(t, []).append(e)
            else:
                table.unit_need[own] += 1
                table.openers.setdefault(t, []).append(own)

    def _classify(
        self, e: int, node: int, event: Event, lanes: Mapping[Lane, _LaneState], late: list[tuple[int, Ref, bool]]
    ) -> None:
        table, body = self.table, event.body
        step, arg, number = Step.FREE, -1, -1
        match body:
            case Compute():
                pass
            case Wait():
                step = Step.WAIT
                late.append((e, body.on, True))
            case HostSync():
                step = Step.WAIT
                late.extend((e, ref, True) for ref in self._synced(event, body, lanes))
            case Collective() | Barrier() | GroupCreate():
                step = Step.MEET
                arg, number = self._meet(e, node, body)
            case Send() | Recv():
                step = Step.SEND if isinstance(body, Send) else Step.RECV
                arg, number = self._pair(e, node, body)
            case Acquire() | Release():
                step = Step.ACQUIRE if isinstance(body, Acquire) else Step.RELEASE
                arg, number = self._credit(e, node, body)
            case StoreWait() | StoreSet():
                step = Step.STORE_WAIT if isinstance(body, StoreWait) else Step.STORE_SET
                arg = self._key(body.key)
                if step is Step.STORE_SET:
                    table.key_setters[arg].append(e)
            case _:
                assert_never(body)
        table.step.append(step)
        table.arg.append(arg)
        table.number.append(number)

    def _synced(self, event: Event, body: HostSync, lanes: Mapping[Lane, _LaneState]) -> Iterator[Ref]:
        """Yields the last events issued so far on the lanes that a host sync waits for; lanes are FIFOs."""
        for lane in lanes if body.lane is None else (body.lane,):
            state = lanes.get(lane)
            if state is None or state.last_unit is None or lane == event.lane:
                continue
            members = self.table.unit_events[state.last_unit]
            for t in members[:1] if self.table.batches is BatchCompletion.TOGETHER else members:
                yield self.table.events[t].ref

    def _meet(self, e: int, node: int, body: Collective | Barrier | GroupCreate) -> tuple[int, int]:
        table, is_creation = self.table, isinstance(body, GroupCreate)
        key, slot = table.linker.meeting(node, body)
        m = self._meetings.get((is_creation, key))
        if m is None:
            m = self._meetings[(is_creation, key)] = len(table.meetings)
            members = table.linker.members(table.linker.rank_of(node), body)
            calls: dict[Party, list[int]] = {party: [] for _, party in members if party is not None}
            own = table.standing(e).body
            group = own.group if isinstance(own, Collective | Barrier | GroupCreate) else body.group
            table.meetings.append(Meeting(group=group, is_creation=is_creation, calls=calls, members=members))
        calls_here = table.meetings[m].calls.get((node, slot))
        if calls_here is None:
            table.problems.append(Problem(e, f"calls {body.group}, of which its rank is no member"))
            calls_here = table.meetings[m].calls[(node, slot)] = []
        calls_here.append(e)
        return m, len(calls_here) - 1

    def _pair(self, e: int, node: int, body: Send | Recv) -> tuple[int, int]:
        table = self.table
        rank = table.linker.rank_of(node)
        peer = table.linker.peer(rank, body)
        key = table.linker.channel(node, body)
        c = self._channels.get(key)
        if c is None:
            c = self._channels[key] = len(table.channels)
            source, destination = (rank, peer) if isinstance(body, Send) else (peer, rank)
            table.channels.append(Channel(source=source, destination=destination, tag=body.tag))
        side = table.channels[c].sends if isinstance(body, Send) else table.channels[c].recvs
        side.append(e)
        if table.linker.node_of(peer) is None:
            table.open_steps.append(e)
        return c, len(side) - 1

    def _credit(self, e: int, node: int, body: Acquire | Release) -> tuple[int, int]:
        table = self.table
        c = self._credits.get((node, body.credit))
        if c is None:
            c = self._credits[(node, body.credit)] = len(table.credits)
            capacity = self._capacity(table.linker.rank_of(node), body.credit)
            if capacity is None:
                table.problems.append(Problem(e, f"uses credit {body.credit}, which has no capacity"))
                capacity = 0
            table.credits.append(Credit(node=node, name=body.credit, capacity=capacity))
        side = table.credits[c].acquires if isinstance(body, Acquire) else table.credits[c].releases
        side.append(e)
        return c, len(side) - 1

    def _key(self, key: str) -> int:
        index = self._keys.get(key)
        if index is None:
            index = self._keys[key] = len(self.table.keys)
            self.table.keys.append(key)
            self.table.key_setters.append([])
        return index

    def finish(self, *, is_world_known: bool) -> Table:
        """The table with its meeting instances numbered; `arg` of a meeting step becomes its instance."""
        table = self.table
        if not is_world_known:
            unset = {key for key, setters in enumerate(table.key_setters) if not setters}
            table.open_steps += [
                e for e, step in enumerate(table.step) if step is Step.STORE_WAIT and table.arg[e] in unset
            ]
        for m, meeting in enumerate(table.meetings):
            base = len(table.instance_meeting)
            for k in range(max(map(len, meeting.calls.values()), default=0)):
                table.instance_meeting.append(m)
                table.instance_need.append(len(meeting.calls))
                table.instance_events.append([calls[k] for calls in meeting.calls.values() if k < len(calls)])
            for calls in meeting.calls.values():
                for k, e in enumerate(calls):
                    table.arg[e] = base + k
        return table


def compile_programs(
    programs: Sequence[Sequence[Event]],
    linker: Linker,
    *,
    batches: BatchCompletion,
    capacity: Callable[[int, str], int | None],
    is_world_known: bool = True,
) -> Table:
    """The table of one program for each node, in the linker's order of nodes."""
    compiler = _Compiler(linker, batches, capacity)
    for program in programs:
        compiler.add_program(program)
    return compiler.finish(is_world_known=is_world_known)


def compile_trace(trace: Trace, batches: BatchCompletion) -> Table:
    """The table of a plain trace: one node for each observed rank, ascending."""
    capacities = trace.credits

    def capacity(rank: int, name: str) -> int | None:
        return capacities.get((rank, name), capacities.get((None, name)))

    programs = [trace.events[rank] for rank in sorted(trace.events)]
    return compile_programs(
        programs, TraceLinker(trace), batches=batches, capacity=capacity, is_world_known=not trace.unknown_ranks
    )
