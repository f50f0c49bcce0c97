"""Executes a trace with real threads over bounded channels: the referee of the judge.

It shares no code with `match`: arrival order numbers the calls, credits are counting semaphores, channels are queues
with a byte limit. One thread for each lane of each rank. When every thread sleeps and nobody can wake another, the
program hangs for certain and is stopped at once; a time limit bounds the rest.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol, assert_never

from emberward.events import (
    Acquire,
    Barrier,
    Body,
    Collective,
    Compute,
    Event,
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
from emberward.match import RENDEZVOUS, BatchCompletion, SendSemantics

ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "uint8": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What really happened: `finished`, or the (rank, event) at which each stopped lane stood.

    `mismatches` tells calls that met and differed. `hit_time_limit`: stopped by the clock, not because all slept.
    """

    finished: bool
    frontier: tuple[tuple[int, Ref], ...]
    mismatches: tuple[str, ...]
    hit_time_limit: bool
    seconds: float


class Replayer(Protocol):
    """Executes a trace for real. Another one may run it on gloo."""

    def replay(self, trace: Trace, *, time_limit_s: float) -> Replay:
        """Runs `trace` until it ends, hangs or `time_limit_s` is over; leaves no thread or process behind."""


class _Stopped(Exception):
    """The replay is over; a lane's thread unwinds."""


@dataclass(slots=True)
class _Sleeper:
    """A sleeping thread, registered under each key that may wake it."""

    condition: threading.Condition
    is_asleep: bool = True


@dataclass(slots=True)
class _Queue:
    """One channel: how many sends and receives have come, which sends were taken by the buffer."""

    send_bytes: list[int | None] = field(default_factory=list)
    num_recvs: int = 0
    buffered: set[int] = field(default_factory=set)
    used_bytes: int = 0
    next_to_buffer: int = 0


class _World:
    """State shared by all threads of one replay; `lock` guards all of it."""

    def __init__(self, trace: Trace, sends: SendSemantics, batches: BatchCompletion) -> None:
        self.trace = trace
        self.buffer_bytes = sends.buffer_bytes
        self.batches = batches
        self.lock = threading.Lock()
        self.sleepers: dict[Hashable, list[_Sleeper]] = defaultdict(list)
        self.num_awake = 0
        self.is_over = False
        self.over = threading.Event()
        self.done: set[tuple[int, Lane, int]] = set()
        self.counts: dict[Hashable, int] = defaultdict(int)
        self.arrived: dict[Hashable, dict[int, object]] = defaultdict(dict)
        self.queues: dict[Hashable, _Queue] = defaultdict(_Queue)
        self.credits: dict[tuple[int, str], int] = {}
        self.store: set[str] = set()
        self.mismatches: list[str] = []
        self.mismatched: set[Hashable] = set()

    def wake(self, key: Hashable) -> None:
        """Wakes every thread that sleeps on `key`."""
        for sleeper in self.sleepers.pop(key, ()):
            if sleeper.is_asleep:
                sleeper.is_asleep = False
                self.num_awake += 1
                sleeper.condition.notify()

    def sleep(self, *keys: Hashable) -> None:
        """Sleeps until one of `keys` is woken. Raises _Stopped when the replay is over."""
        if self.is_over:
            raise _Stopped
        sleeper = _Sleeper(condition=threading.Condition(self.lock))
        for key in keys:
            self.sleepers[key].append(sleeper)
        self.num_awake -= 1
        if self.num_awake == 0:
            self.stop()
        else:
            while sleeper.is_asleep:
                sleeper.condition.wait()
        if self.is_over:
            raise _Stopped

    def leave(self) -> None:
        """A thread ended."""
        self.num_awake -= 1
        if self.num_awake == 0:
            self.stop()

    def stop(self) -> None:
        """Ends the replay and wakes everybody."""
        self.is_over = True
        self.over.set()
        for key in list(self.sleepers):
            self.wake(key)


class _LaneThread(threading.Thread):
    """Executes one lane in order."""

    def __init__(
        self, world: _World, rank: int, calls: Sequence[Sequence[Event]], syncs: Mapping[int, list[Ref]]
    ) -> None:
        super().__init__(name=f"replay rank {rank} {calls[0][0].lane}", daemon=True)
        self.world = world
        self.rank = rank
        self.calls = calls
        self.syncs = syncs

    def run(self) -> None:
        world = self.world
        with world.lock:
            try:
                for call in self.calls:
                    self.execute(call)
            except _Stopped:
                return
            world.leave()

    def execute(self, call: Sequence[Event]) -> None:
        """Issues a call, one event or one batch, and waits for its end."""
        for event in call:
            for ref in event.after:
                self.wait_for(ref)
        tickets = [self.issue(event) for event in call]
        if len(call) == 1:
            self.finish(call[0], tickets[0])
            self.mark(call[0])
            return
        left: list[tuple[Event, Body, int]] = [(event, event.body, n) for event, n in zip(call, tickets, strict=True)]
        while left:
            waiting: list[tuple[Event, Body, int]] = []
            for event, body, ticket in left:
                if isinstance(body, Send | Recv) and not self.is_exchanged(body, ticket):
                    waiting.append((event, body, ticket))
                elif self.world.batches is BatchCompletion.EACH:
                    self.mark(event)
            left = waiting
            if left:
                self.world.sleep(*(self.channel(body) for _, body, _ in left if isinstance(body, Send | Recv)))
        for event in call:
            self.mark(event)

    def mark(self, event: Event) -> None:
        self.world.done.add((self.rank, event.lane, event.position))
        self.world.wake(("done", self.rank, event.lane, event.position))

    def wait_for(self, ref: Ref) -> None:
        while (self.rank, ref.lane, ref.position) not in self.world.done:
            self.world.sleep(("done", self.rank, ref.lane, ref.position))

    def issue(self, event: Event) -> int:
        """Arrives at the call and returns its number there; nobody waits here."""
        world, body = self.world, event.body
        match body:
            case Collective() | Barrier() | GroupCreate():
                key = self.meeting(body)
                number = world.counts[(self.rank, key)]
                world.counts[(self.rank, key)] += 1
                world.arrived[(key, number)][self.rank] = _signature(body)
                world.wake((key, number))
                return number
            case Send():
                queue = world.queues[self.channel(body)]
                size = ITEM_BYTES.get(body.dtype or "")
                queue.send_bytes.append(None if size is None or body.numel is None else size * body.numel)
                world.wake(self.channel(body))
                return len(queue.send_bytes) - 1
            case Recv():
                queue = world.queues[self.channel(body)]
                queue.num_recvs += 1
                number = queue.num_recvs - 1
                if number in queue.buffered:
                    queue.used_bytes -= queue.send_bytes[number] or 0
                world.wake(self.channel(body))
                return number
            case _:
                return 0

    def finish(self, event: Event, number: int) -> None:
        """Waits until the issued call has ended."""
        world, body = self.world, event.body
        match body:
            case Collective() | Barrier() | GroupCreate():
                self.meet(event, body, number)
            case Send() | Recv():
                while not self.is_exchanged(body, number):
                    world.sleep(self.channel(body))
            case Wait():
                self.wait_for(body.on)
            case HostSync():
                for ref in self.syncs[event.position]:
                    self.wait_for(ref)
            case Acquire():
                key = (self.rank, body.credit)
                while self.credit(key) == 0:
                    world.sleep(("credit", *key))
                world.credits[key] -= 1
            case Release():
                key = (self.rank, body.credit)
                world.credits[key] = self.credit(key) + 1
                world.wake(("credit", *key))
            case StoreSet():
                world.store.add(body.key)
                world.wake(("store", body.key))
            case StoreWait():
                while body.key not in world.store:
                    world.sleep(("store", body.key))
            case Compute():
                pass
            case _:
                assert_never(body)

    def credit(self, key: tuple[int, str]) -> int:
        given = self.world.trace.credits
        return self.world.credits.setdefault(key, given.get(key, given.get((None, key[1]), 0)))

    def meeting(self, body: Collective | Barrier | GroupCreate) -> Hashable:
        return ("create", body.group, body.members) if isinstance(body, GroupCreate) else ("call", body.group)

    def meet(self, event: Event, body: Collective | Barrier | GroupCreate, number: int) -> None:
        world, key = self.world, (self.meeting(body), number)
        members = set(body.group.ranks)
        if isinstance(body, GroupCreate):
            members = set(range(world.trace.world_size) if body.members is None else body.members)
        members &= set(world.trace.events)
        while not members <= world.arrived[key].keys():
            world.sleep(key)
        if len(set(world.arrived[key].values())) > 1 and key not in world.mismatched:
            world.mismatched.add(key)
            world.mismatches.append(f"{body.group} call {number + 1}: {sorted(map(str, world.arrived[key].values()))}")

    def channel(self, body: Send | Recv) -> Hashable:
        ends = (self.rank, body.peer) if isinstance(body, Send) else (body.peer, self.rank)
        return ("channel", body.group, *ends, body.tag)

    def is_exchanged(self, body: Send | Recv, number: int) -> bool:
        """Whether the send or receive has ended: its partner has come, or the channel took the send."""
        world, key = self.world, self.channel(body)
        queue = world.queues[key]
        if body.peer not in world.trace.events:
            return True
        if isinstance(body, Recv):
            return number < len(queue.send_bytes)
        self.fill(queue, key)
        return number < queue.num_recvs or number in queue.buffered

    def fill(self, queue: _Queue, key: Hashable) -> None:
        """Lets the channel take the sends that fit, in their order."""
        limit = self.world.buffer_bytes
        while limit != 0 and queue.next_to_buffer < len(queue.send_bytes):
            number = queue.next_to_buffer
            size = queue.send_bytes[number]
            if number >= queue.num_recvs:
                if limit is not None and (size is None or queue.used_bytes + size > limit):
                    return
                queue.buffered.add(number)
                queue.used_bytes += size or 0
                self.world.wake(key)
            queue.next_to_buffer += 1


def _signature(body: Collective | Barrier | GroupCreate) -> object:
    if isinstance(body, Collective):
        return (body.op, body.dtype, body.numel, body.root, body.reduce_op)
    return type(body).__name__


def _calls_of(events: Sequence[Event]) -> tuple[dict[Lane, list[list[Event]]], dict[Lane, dict[int, list[Ref]]]]:
    """For each lane its calls (batches together), and what each host sync waits for."""
    lanes: dict[Lane, list[Event]] = defaultdict(list)
    syncs: dict[Lane, dict[int, list[Ref]]] = defaultdict(dict)
    for event in events:
        if isinstance(event.body, HostSync):
            wanted = [event.body.lane] if event.body.lane is not None else list(lanes)
            refs = [e.ref for lane in wanted if lane != event.lane for e in lanes.get(lane, [])]
            syncs[event.lane][event.position] = refs
        lanes[event.lane].append(event)
    calls: dict[Lane, list[list[Event]]] = {}
    for lane, items in lanes.items():
        grouped = groupby(items, key=lambda e: ("batch", b) if (b := _batch(e)) is not None else ("one", e.position))
        calls[lane] = [list(group) for _, group in grouped]
    return calls, syncs


def _batch(event: Event) -> int | None:
    return event.body.batch if isinstance(event.body, Send | Recv) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadReplayer:
    """Replays on threads of this process, for the given sends and batches."""

    sends: SendSemantics = RENDEZVOUS
    batches: BatchCompletion = BatchCompletion.TOGETHER

    def replay(self, trace: Trace, *, time_limit_s: float) -> Replay:
        """Runs `trace` until it ends, hangs or `time_limit_s` is over. Blocks; leaves no thread behind."""
        world = _World(trace, self.sends, self.batches)
        threads = []
        for rank, events in trace.events.items():
            calls, syncs = _calls_of(events)
            threads += [_LaneThread(world, rank, calls[lane], syncs[lane]) for lane in calls]
        began = time.monotonic()
        with world.lock:
            world.num_awake = len(threads)
            for thread in threads:
                thread.start()
        in_time = world.over.wait(time_limit_s) if threads else True
        with world.lock:
            world.stop()
        for thread in threads:
            thread.join(time_limit_s)
        frontier = tuple(_frontier(trace, world))
        return Replay(
            finished=not frontier,
            frontier=frontier,
            mismatches=tuple(world.mismatches),
            hit_time_limit=not in_time,
            seconds=time.monotonic() - began,
        )


def _frontier(trace: Trace, world: _World) -> list[tuple[int, Ref]]:
    found = []
    for rank, events in trace.events.items():
        calls, _ = _calls_of(events)
        for lane_calls in calls.values():
            for call in lane_calls:
                left = [event for event in call if (rank, event.lane, event.position) not in world.done]
                if left:
                    found += [(rank, event.ref) for event in left]
                    break
    return sorted(found, key=lambda item: (item[0], item[1].lane, item[1].position))
