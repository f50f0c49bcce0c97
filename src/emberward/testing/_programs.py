"""Random small programs, right and wrong, that a seed gives again.

A right program is built in one global order, so that running it in that order always ends; a wrong one is a right one
with a few random changes, some of which do no harm: what is true is found by replay. Excluded by construction, since
their outcome is a race: two lanes of a rank that issue calls of one group or channel, or that acquire one credit.
"""

import random
from dataclasses import dataclass, field, replace

from emberward.events import (
    Acquire,
    Barrier,
    Body,
    Collective,
    CollectiveOp,
    Compute,
    Event,
    Group,
    GroupCreate,
    HostSync,
    Lane,
    LaneKind,
    Observer,
    Recv,
    ReduceOp,
    Ref,
    Release,
    Send,
    Site,
    StoreSet,
    StoreWait,
    SyncKind,
    Trace,
    TraceBuilder,
    Wait,
)

HOST = Lane(kind=LaneKind.HOST)
NUM_COMM_LANES = 2
MAX_RANKS = 8


def _comm(index: int) -> Lane:
    return Lane(kind=LaneKind.COMM, index=index)


@dataclass(slots=True)
class _Writer:
    """A program under construction."""

    rng: random.Random
    builder: TraceBuilder
    num_ranks: int
    groups: list[tuple[Group, Lane]]
    last_host: dict[int, Ref] = field(default_factory=dict)
    unwaited: dict[int, list[Ref]] = field(default_factory=dict)
    credits: dict[int, list[tuple[str, Lane]]] = field(default_factory=dict)
    held: list[tuple[int, str]] = field(default_factory=list)
    num_batches: int = 0
    num_keys: int = 0
    line: int = 0

    def put(self, rank: int, lane: Lane, body: Body) -> None:
        after = []
        if lane != HOST and rank in self.last_host:
            after = [self.last_host[rank]]
        event = self.builder.add(rank, lane, body, after=after, site=Site(file="program.py", line=self.line))
        if lane == HOST:
            self.last_host[rank] = event.ref
        else:
            self.unwaited.setdefault(rank, []).append(event.ref)

    def collective(self) -> None:
        group, lane = self.rng.choice(self.groups)
        body: Body
        match self.rng.randrange(4):
            case 0:
                body = Barrier(group=group)
            case 1:
                root = self.rng.choice(group.ranks)
                body = Collective(op=CollectiveOp.BROADCAST, group=group, dtype="float32", numel=8, root=root)
            case _:
                numel = self.rng.choice([4, 8])
                body = Collective(
                    op=CollectiveOp.ALL_REDUCE, group=group, dtype="float32", numel=numel, reduce_op=ReduceOp.SUM
                )
        for rank in group.ranks:
            self.put(rank, lane, body)

    def message(self) -> None:
        source, destination = self.rng.sample(range(self.num_ranks), 2)
        tag = self.rng.randrange(3)
        numel = self.rng.randrange(1, 9)
        self.put(source, self.lane_of(tag), Send(peer=destination, tag=tag, dtype="int8", numel=numel, tensor="x"))
        self.put(destination, self.lane_of(tag), Recv(peer=source, tag=tag, dtype="int8", numel=numel, tensor="x"))

    def lane_of(self, tag: int) -> Lane:
        return HOST if tag == 0 else _comm((tag - 1) % NUM_COMM_LANES)

    def exchange(self) -> None:
        """Two to three ranks send around a ring, each as one batch."""
        ranks = self.rng.sample(range(self.num_ranks), min(self.num_ranks, self.rng.choice([2, 3])))
        tag, batch = self.rng.randrange(3), self.num_batches
        self.num_batches += 1
        for i, rank in enumerate(ranks):
            right, left = ranks[(i + 1) % len(ranks)], ranks[i - 1]
            calls: list[Body] = [
                Send(peer=right, tag=tag, batch=batch, dtype="int8", numel=4, tensor="x"),
                Recv(peer=left, tag=tag, batch=batch, dtype="int8", numel=4, tensor="x"),
            ]
            self.rng.shuffle(calls)
            for call in calls:
                self.put(rank, self.lane_of(tag), call)

    def credit(self) -> None:
        if self.held and self.rng.random() < 0.5:
            rank, name = self.held.pop(self.rng.randrange(len(self.held)))
            self.put(rank, self.rng.choice([HOST, _comm(0), _comm(1)]), Release(credit=name))
            return
        rank = self.rng.randrange(self.num_ranks)
        for name, lane in self.credits.get(rank, []):
            if (rank, name) not in self.held:
                self.put(rank, lane, Acquire(credit=name))
                self.held.append((rank, name))
                return

    def local(self) -> None:
        rank = self.rng.randrange(self.num_ranks)
        refs = self.unwaited.get(rank, [])
        match self.rng.randrange(4):
            case 0 if refs:
                self.put(rank, HOST, Wait(on=refs.pop(self.rng.randrange(len(refs)))))
            case 1:
                lane = self.rng.choice([None, _comm(0), _comm(1)])
                self.put(rank, HOST, HostSync(kind=SyncKind.SYNCHRONIZE, lane=lane))
            case 2:
                self.put(rank, _comm(0), Compute(name="kernel"))
            case _:
                self.put(rank, HOST, Compute(name="step"))

    def store(self) -> None:
        key = f"key{self.num_keys}"
        self.num_keys += 1
        first, second = self.rng.sample(range(self.num_ranks), 2)
        self.put(first, HOST, StoreSet(key=key))
        self.put(second, HOST, StoreWait(key=key))


def right_program(rng: random.Random) -> Trace:
    """A program of 2 to MAX_RANKS ranks that always ends."""
    num_ranks = rng.randint(2, MAX_RANKS)
    builder = TraceBuilder(num_ranks, Observer.DRY_RUN)
    world = Group(ranks=tuple(range(num_ranks)), label="world")
    groups = [(world, HOST)]
    for index in range(rng.randint(1, 3)):
        size = rng.randint(2, num_ranks)
        ranks = tuple(sorted(rng.sample(range(num_ranks), size)))
        group = Group(ranks=ranks, index=index + 1, label=f"g{index}")
        groups.append((group, rng.choice([HOST, _comm(0), _comm(1)])))
    writer = _Writer(rng=rng, builder=builder, num_ranks=num_ranks, groups=groups)
    for rank in range(num_ranks):
        builder.observe(rank)
        writer.credits[rank] = [("buffer", rng.choice([HOST, _comm(0)])), ("queue", _comm(1))]
    for name in ("buffer", "queue"):
        builder.set_credit(name, rng.choice([1, 1, 2]))
    if rng.random() < 0.3:
        for rank in range(num_ranks):
            writer.put(rank, HOST, GroupCreate(group=groups[1][0]))
    actions = [writer.collective] * 3 + [writer.message] * 4 + [writer.exchange, writer.local, writer.local]
    actions += [writer.credit] * 3 + [writer.store]
    for line in range(rng.randint(6, 28)):
        writer.line = line + 1
        rng.choice(actions)()
    return builder.build()


def _renumbered(events: list[Event]) -> tuple[Event, ...]:
    """The events with positions counted anew; references that no longer hold are dropped."""
    counts: dict[Lane, int] = {}
    placed: dict[tuple[Lane, int], Ref] = {}
    positions = []
    for event in events:
        position = counts.get(event.lane, 0)
        counts[event.lane] = position + 1
        positions.append(position)
        placed.setdefault((event.lane, event.position), Ref(lane=event.lane, position=position))
    out = []
    for event, position in zip(events, positions, strict=True):
        after = tuple(ref for old in event.after if (ref := placed.get((old.lane, old.position))) is not None)
        body = event.body
        if isinstance(body, Wait):
            on = placed.get((body.on.lane, body.on.position))
            body = Compute(name="step") if on is None else Wait(on=on)
        out.append(replace(event, position=position, after=after, body=body))
    return tuple(out)


def _harm(rng: random.Random, events: list[Event], num_kinds: int) -> list[Event]:
    """The events of one rank with one random change; the first three of six kinds only reorder."""
    index = rng.randrange(len(events))
    event = events[index]
    match rng.randrange(num_kinds):
        case 0 | 1 | 2:
            later = [i for i in range(index + 1, len(events)) if events[i].lane == event.lane]
            if later:
                events[index], events[later[0]] = events[later[0]], events[index]
        case 3:
            del events[index]
        case 4:
            events.insert(index, event)
        case _:
            body = event.body
            if isinstance(body, Collective):
                events[index] = replace(event, body=replace(body, numel=16))
            elif isinstance(body, Send | Recv):
                events[index] = replace(event, body=replace(body, tag=9))
    return events


def random_program(seed: int) -> Trace:
    """The program of `seed`: right for every third seed, harmed by two to six random changes for the others."""
    rng = random.Random(seed)
    trace = right_program(rng)
    if seed % 3 == 0:
        return trace
    events = {rank: list(items) for rank, items in trace.events.items()}
    num_kinds = rng.choice([3, 6])
    for _ in range(rng.randint(2, 6)):
        rank = rng.choice([rank for rank, items in events.items() if items] or [0])
        if events[rank]:
            events[rank] = list(_renumbered(_harm(rng, events[rank], num_kinds)))
    credits = dict(trace.credits)
    if rng.random() < 0.2:
        credits[(None, "buffer")] = 1
    return replace(trace, events={rank: tuple(items) for rank, items in events.items()}, credits=credits)
