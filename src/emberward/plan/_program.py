"""Programs: what one rank does in one step, as events. The executor runs exactly this list.

[Note: program]
A schedule orders forwards and backwards; a program adds the sends, receives and waits between stages and is made of
events, so that what runs, what is proved, what is recorded and what is drawn are one value.

- `Compute` carries the action's text as its name (``1F0``); the collectives inside a stage are its own business.
- A backward in two parts is two computes: the gradient of the input leaves after the first (I), and the second (W) may
  stand anywhere behind it. A pair that may run at once is two computes as well: a forward and a backward of one rank
  may use the same communicator, so that one thread runs them in the order of their text.
- Each edge between stages carries its tensor: `Send.tensor` and `Recv.tensor` name the action whose result travels.
- Every ordered pair of ranks is a channel: one FIFO lane, in the sender's order. A receiver therefore posts receives
  in that order, even if it needs a later one first. On NCCL a channel is a stream, where another order dead-locks
  (pytorch#172668); with tags on gloo another order would be legal but buys nothing.
- A receive is posted one compute early, so that the transfer runs beside that compute; the host waits for it right
  before the compute that needs it. Where transfers share a device (NCCL), all ranks launch them in one order instead
  and post early what that order allows: see `_edges.py` [Note: launches].
- The send of a forward's result is waited for at the backward (B or I) of the same micro-batch: the peer has answered
  by then, so that the wait costs nothing and memory stays bounded by the schedule.
- Any other result (a gradient, in evaluation a forward's) is waited for before a later compute that makes one for the
  same edge: the first by which it has left by the schedule's own clock (`_clock.py`). So what is held is bounded, and
  no compute is late. The last are waited for at the end.
- With `has_credits` each buffer is an `Acquire` and a `Release` on the host's lane: see `_buffers.py` [Note: buffers].
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from emberward.events import (
    Acquire,
    Body,
    Collective,
    Compute,
    Event,
    Group,
    Lane,
    LaneKind,
    Observer,
    Phase,
    Recv,
    Ref,
    Release,
    Send,
    Stage,
    Trace,
    TraceBuilder,
    Wait,
    describe,
)
from emberward.layout import Mesh
from emberward.plan._edges import Edge, Launches, channels, edge_after, has_left, launch_order
from emberward.plan._groups import group_sets
from emberward.plan._schedule import Action, Schedule, Work

HOST = Lane(kind=LaneKind.HOST, label="main")
_STAGE = {
    Work.FORWARD: Stage.FORWARD,
    Work.BACKWARD: Stage.BACKWARD,
    Work.INPUT: Stage.BACKWARD_INPUT,
    Work.WEIGHT: Stage.BACKWARD_WEIGHT,
}
_GIVES_INPUT = (Work.BACKWARD, Work.INPUT)
"""What gives the gradient of a stage's input."""
_ENDS = (Work.BACKWARD, Work.WEIGHT)
"""What ends a backward: nothing of the micro-batch is kept after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipe:
    """One pipeline: global ranks by pipeline rank, and the groups its channels use.

    `down` carries what goes to a higher pipeline rank, `up` to a lower one, so that each ordered pair of ranks has
    its own communicator. `dtype` and `shapes` describe what travels (local part, one micro-batch): the k-th shape is
    that behind stage k, of its result and of the gradient that comes back. None: not said.
    """

    ranks: tuple[int, ...]
    down: Group
    up: Group
    dtype: str | None = None
    shapes: tuple[tuple[int, ...], ...] | None = None

    def shape_of(self, source: Action) -> tuple[int, ...] | None:
        """The shape of what `source` makes for another stage: a forward's result, or its input's gradient."""
        if self.shapes is None:
            return None
        return self.shapes[source.stage if source.work is Work.FORWARD else source.stage - 1]

    @classmethod
    def over(
        cls,
        ranks: Sequence[int],
        *,
        mesh: Mesh | None = None,
        dtype: str | None = None,
        shapes: tuple[tuple[int, ...], ...] | None = None,
    ) -> "Pipe":
        """A pipeline over `ranks` with the groups that the engine makes for it in `mesh`.

        Without a mesh the pipeline is taken for a part of a larger world: its channels come after its axis' own group.
        """
        members = tuple(ranks)
        down = Group(ranks=members, index=1, label="pp_down")
        up = Group(ranks=members, index=2, label="pp_up")
        if mesh is not None and len(members) > 1:
            made = {each.label: each for each in group_sets(mesh)}
            down, up = made["pp_down"].of(members[0]), made["pp_up"].of(members[0])
        return cls(ranks=members, down=down, up=up, dtype=dtype, shapes=shapes)


@dataclass(slots=True)
class ProgramWriter:
    """Writes one rank's program."""

    rank: int
    pipe: Pipe
    pp_rank: int
    builder: TraceBuilder
    schedule: Schedule
    launches: Launches
    channels: dict[tuple[int, int], list[Edge]]
    in_order: list[Edge]
    """With one order: the launches that are still to come."""
    lane: Lane = HOST
    """The host's lane that is written to."""
    last_host: dict[Lane, Ref] = field(default_factory=dict)
    posted: dict[tuple[int, int], int] = field(default_factory=dict)
    receives: dict[Action, Ref] = field(default_factory=dict)
    sends: dict[Action, Ref] = field(default_factory=dict)
    has_credits: bool = False
    has_backward: bool = True
    made: set[Action] = field(default_factory=set)
    left: list[Action] = field(default_factory=list)
    """Results that are leaving and are not kept, oldest first."""

    @classmethod
    def of(
        cls,
        schedule: Schedule,
        pipe: Pipe,
        pp_rank: int,
        *,
        launches: Launches = Launches.EARLY,
        has_credits: bool = False,
    ) -> "ProgramWriter":
        """A writer of the program of `pp_rank`, with nothing written."""
        rank = pipe.ranks[pp_rank]
        builder = TraceBuilder(world_size=max(pipe.ranks) + 1, observer=Observer.PLAN)
        builder.observe(rank)
        return cls(
            rank=rank,
            pipe=pipe,
            pp_rank=pp_rank,
            builder=builder,
            schedule=schedule,
            launches=launches,
            channels=channels(schedule),
            in_order=launch_order(schedule, pp_rank) if launches is Launches.ONE_ORDER else [],
            has_credits=has_credits,
            has_backward=any(action.work is not Work.FORWARD for action in schedule.orders[pp_rank]),
        )

    def events(self) -> tuple[Event, ...]:
        """What was written."""
        return self.builder.build().events[self.rank]

    @contextmanager
    def on(self, lane: Lane) -> Iterator[None]:
        """What is written while open stands on another lane of the host."""
        before, self.lane = self.lane, lane
        try:
            yield
        finally:
            self.lane = before

    def host(self, body: Body, phase: Phase) -> None:
        self.last_host[self.lane] = self.builder.add(self.rank, self.lane, body, phase=phase).ref

    def transfer(self, sender: int, receiver: int, body: Send | Recv, phase: Phase) -> Ref:
        # Index 0 is left to collectives; each ordered pair has its own lane.
        index = 1 + sender * len(self.pipe.ranks) + receiver
        lane = Lane(kind=LaneKind.COMM, index=index, label=f"pp{sender}>{receiver}")
        before = self.last_host.get(self.lane)
        after = () if before is None else (before,)
        return self.builder.add(self.rank, lane, body, after=after, phase=phase).ref

    def group(self, sender: int, receiver: int) -> Group:
        return self.pipe.down if sender < receiver else self.pipe.up

    def post_receives_until(self, target: Action) -> None:
        """Posts the receives of the channel that feeds `target`, in the sender's order, up to `target`'s own."""
        for (sender, receiver), edges in self.channels.items():
            if receiver != self.pp_rank or all(edge.target != target for edge in edges):
                continue
            while target not in self.receives:
                edge = edges[self.posted.get((sender, receiver), 0)]
                self.posted[(sender, receiver)] = self.posted.get((sender, receiver), 0) + 1
                self.receives[edge.target] = self.recv(edge)

    def launch_in_order(self, soon: Sequence[Action]) -> None:
        """Launches what comes next in the one order: results that are made, and receives that are needed `soon`."""
        while self.in_order:
            edge = self.in_order[0]
            if edge.sender == self.pp_rank and edge.source in self.made:
                self.send(edge)
            elif edge.receiver == self.pp_rank and edge.target in soon:
                self.receives[edge.target] = self.recv(edge)
            else:
                break
            self.in_order.pop(0)

    def launch_before(self, order: Sequence[Action], index: int) -> None:
        """What is launched before the `index`-th compute: at least the receive that it needs. See [Note: launches]."""
        soon = order[index : index + 2]
        if self.launches is Launches.ONE_ORDER:
            self.launch_in_order(order[: index + 2])
        else:
            for action in soon:
                self.post_receives_until(action)

    def launch_after(self, order: Sequence[Action], index: int) -> None:
        """What is launched after the `index`-th compute: its result, where the order allows."""
        edge = edge_after(self.schedule, order[index])
        if self.launches is Launches.ONE_ORDER:
            self.launch_in_order(order[: index + 2])
        elif edge is not None:
            self.send(edge)

    def recv(self, edge: Edge) -> Ref:
        pipe, shape = self.pipe, self.pipe.shape_of(edge.source)
        self.acquire(BufferKind.RECEIVED, edge.target)
        body = Recv(
            peer=pipe.ranks[edge.sender],
            group=self.group(edge.sender, edge.receiver),
            tag=_tag(edge.source),
            dtype=pipe.dtype,
            numel=None if shape is None else math.prod(shape),
            shape=shape,
            tensor=str(edge.source),
        )
        return self.transfer(edge.sender, edge.receiver, body, phase_of(edge.target))

    def send(self, edge: Edge) -> None:
        pipe, shape = self.pipe, self.pipe.shape_of(edge.source)
        body = Send(
            peer=pipe.ranks[edge.receiver],
            group=self.group(edge.sender, edge.receiver),
            tag=_tag(edge.source),
            dtype=pipe.dtype,
            numel=None if shape is None else math.prod(shape),
            shape=shape,
            tensor=str(edge.source),
        )
        self.sends[edge.source] = self.transfer(edge.sender, edge.receiver, body, phase_of(edge.source))

    def acquire(self, kind: "BufferKind", action: Action) -> None:
        """Takes a buffer for what `action` gets, makes or keeps, when buffers are counted."""
        if self.has_credits:
            self.host(Acquire(credit=buffer_name(kind, action)), phase_of(action))

    def release(self, kind: "BufferKind", action: Action, phase: Phase) -> None:
        """Gives the buffer back."""
        if self.has_credits:
            self.host(Release(credit=buffer_name(kind, action)), phase)

    def wait_for_what_left(self, action: Action) -> None:
        """Waits for the results of `action`'s edge that have left when it starts. See [Note: program]."""
        for source in [each for each in self.left if (each.stage, each.work) == (action.stage, action.work)]:
            if has_left(self.schedule, source, action, self.launches):
                self.wait_for_send(source, phase_of(action))

    def wait_for_send(self, source: Action, phase: Phase) -> None:
        """Waits until what `source` made has left."""
        self.host(Wait(on=self.sends.pop(source)), phase)
        if source in self.left:
            self.left.remove(source)
            self.release(BufferKind.LEAVING, source, phase)

    def run(self, action: Action) -> None:
        """The compute of `action` between the taking and giving back of its buffers."""
        leaves = edge_after(self.schedule, action) is not None and not self.is_kept(action)
        if leaves:
            self.wait_for_what_left(action)
            self.acquire(BufferKind.LEAVING, action)
        if self.is_kept(action):
            self.acquire(BufferKind.KEPT, action)
        self.host(Compute(name=str(action)), phase_of(action))
        self.made.add(action)
        if action.work in _ENDS:
            self.release(BufferKind.KEPT, action, phase_of(action))
        if action in self.receives:
            self.release(BufferKind.RECEIVED, action, phase_of(action))
        if leaves:
            self.left.append(action)

    def is_kept(self, action: Action) -> bool:
        """Whether what `action` makes stays until its backward anyway."""
        return self.has_backward and action.work is Work.FORWARD


class BufferKind(StrEnum):
    """What a buffer holds. See `_buffers.py` [Note: buffers]."""

    KEPT = "kept"
    RECEIVED = "received"
    LEAVING = "leaving"


def buffer_name(kind: BufferKind, action: Action) -> str:
    """The credit of a stage's buffers of one kind: ``kept 0``, ``received 1F``, ``leaving 1B``."""
    return f"{kind.value} {action.stage}" + ("" if kind is BufferKind.KEPT else action.work.value)


def phase_of(action: Action) -> Phase:
    """The phase of an action in programs."""
    return Phase(micro_batch=action.mb, stage=_STAGE[action.work])


def _tag(source: Action) -> int:
    """One tag for each kind of edge, so that a forward's result is never taken for a gradient."""
    return 2 * source.stage + (0 if source.work is Work.FORWARD else 1)


def pipeline_program(
    schedule: Schedule,
    pipe: Pipe,
    pp_rank: int,
    *,
    tail: Sequence[Body] = (),
    launches: Launches = Launches.EARLY,
    has_credits: bool = False,
) -> tuple[Event, ...]:
    """The program of `pp_rank`: its schedule with sends, receives and waits, then `tail` on the host's lane.

    `tail` holds what ends a step on every rank (gradient collectives, optimizer). See [Note: program]. Raises
    ConfigError C109 when the schedule's orders wait for each other in a ring.
    """
    order = schedule.orders[pp_rank]
    writer = ProgramWriter.of(schedule, pipe, pp_rank, launches=launches, has_credits=has_credits)
    for index, action in enumerate(order):
        writer.launch_before(order, index)
        if action in writer.receives:
            writer.host(Wait(on=writer.receives[action]), phase_of(action))
        if action.work in _GIVES_INPUT and Action(action.stage, Work.FORWARD, action.mb) in writer.sends:
            writer.wait_for_send(Action(action.stage, Work.FORWARD, action.mb), phase_of(action))
        writer.run(action)
        writer.launch_after(order, index)
    for source in list(writer.sends):
        writer.wait_for_send(source, Phase())
    for body in tail:
        writer.host(body, Phase(stage=Stage.OPTIMIZER))
    return writer.events()


def pipeline_trace(schedule: Schedule, pipe: Pipe, *, launches: Launches = Launches.EARLY) -> Trace:
    """The programs of all ranks of one pipeline as a trace that can be judged or written."""
    return Trace(
        world_size=max(pipe.ranks) + 1,
        events={
            pipe.ranks[pp]: pipeline_program(schedule, pipe, pp, launches=launches) for pp in range(schedule.num_ranks)
        },
        observer=Observer.PLAN,
    )


def program_text(program: Sequence[Event]) -> str:
    """One line an event, e.g. ``pp0>1  send to 1 tag 0 (0F0)``; what `from host` waits show as ``main  wait ...``."""
    width = max((len(str(event.lane)) for event in program), default=0)
    return "\n".join(f"{event.lane!s:<{width}}  {_line(event.body)}" for event in program)


def _line(body: Body) -> str:
    if isinstance(body, Collective) and body.tensor is not None:
        return f"{describe(body)} ({body.tensor})"
    return describe(body)
