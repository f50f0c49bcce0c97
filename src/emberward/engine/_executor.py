"""Runs a program: the one place where a list of events becomes work.

It runs what the list says in the order in which it says it. Swap two entries and something else happens, and is
recorded so. See `emberward.plan` [Note: program].
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import torch
import torch.distributed as dist
from torch import Tensor, nn

from emberward.draws import Draws
from emberward.engine._lanes import by_host_lane
from emberward.engine._world import World
from emberward.events import (
    Acquire,
    Barrier,
    Collective,
    Compute,
    Event,
    Phase,
    Recv,
    Ref,
    Release,
    Send,
    Sink,
    State,
    Wait,
)
from emberward.families.layers import WeightQueue
from emberward.plan import Action, Work, readers

LossFunction = Callable[[int, Tensor], Tensor]
"""What the last stage does with (micro-batch, its output): gives the contribution to the step's loss, a scalar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What a run of a program needs from outside.

    `inputs` gives the first stage's input of each micro-batch; `loss` is called on the last stage. `draws` is what each
    micro-batch's random numbers come from, None in evaluation. `work` gives the callables behind the program's other
    computes and collectives, by compute name or collective tensor.
    `before(action, is_last, then)` is called before each compute, for what dp shards and sums: whether it is the
    backward or weights' part that ends a stage, and the next forward or backward of this rank, which read parameters;
    `after(action)` follows it. A program with split backwards needs `late`, where their weights' products wait.
    """

    inputs: Sequence[Tensor] | None
    loss: LossFunction | None
    draws: Sequence[Draws] | None = None
    work: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    before: Callable[[Action, bool, Action | None], None] | None = None
    late: WeightQueue | None = None
    after: Callable[[Action], None] | None = None


class StepPart(StrEnum):
    """Where a rank's host is in a step; `metrics.jsonl` has each with ``_s`` behind it."""

    FORWARD = "forward"
    BACKWARD = "backward"
    EXCHANGE = "exchange"
    """Transfers, collectives and waits between computes, and dp's around them."""
    OPTIMIZER = "optimizer"


@dataclass(slots=True)
class _Flight:
    """A transfer under way. The tensor is kept alive until it has arrived or left."""

    work: dist.Work
    tensor: Tensor | None


_Result = tuple[int, bool, int]
"""(stage, whether of a forward, micro-batch) of what a compute gives to the next stage or the one before."""


def _result(action: Action) -> _Result:
    return action.stage, action.work is Work.FORWARD, action.mb


@dataclass(frozen=True, slots=True)
class _Computes:
    """What a program's computes need to know of each other.

    `last`: the backward, or the weights' part of one, that ends each stage. `whole`: the parts of those that are split
    but have nothing between their parts, and so run as one, in place of the first. `then`: what reads parameters next.
    """

    last: frozenset[Action]
    whole: frozenset[Action]
    then: Mapping[Action, Action | None]


class Executor:
    """Runs programs over this rank's stages. Not thread-safe; one program at a time."""

    def __init__(
        self,
        stages: Mapping[int, nn.Module],
        num_stages: int,
        world: World,
        *,
        transfer_dtype: torch.dtype,
        credits: Mapping[str, int] | None = None,
    ) -> None:
        """`credits`: the capacities of those that programs with several host lanes take and give back."""
        self._stages = stages
        self._num_stages = num_stages
        self._world = world
        self._transfer_dtype = transfer_dtype
        self._credits = credits or {}
        self._in_flight: dict[Ref, _Flight] = {}
        self._values: dict[_Result, Tensor] = {}
        self._saved: dict[tuple[int, int], tuple[Tensor | None, Tensor]] = {}
        self._spans: list[tuple[StepPart, float]] = []
        self.micro_batch: int | None = None
        """Which micro-batch the compute under way works on; None outside of computes."""

    def run(
        self,
        program: Iterable[Event],
        feed: Feed,
        *,
        step: int | None = None,
        sink: Sink | None = None,
    ) -> None:
        """Runs `program` to its end. All ranks of the pipeline must run theirs; blocks in waits and collectives.

        `sink` gets each event with its times, numbered by `step`. After an exception the run is lost: what was in
        flight is dropped and the error goes on to the caller.
        """
        events = list(program)
        computes = _computes(events)
        mark = self._world.mark

        self._spans.clear()

        def do(event: Event) -> None:
            if mark is not None:
                mark(dataclasses.replace(event.phase, step=step))
            started_ns = time.monotonic_ns() if sink is not None else 0
            began_s = time.perf_counter()
            self._do(event, feed, computes)
            self._spans.append((part_of(event), time.perf_counter() - began_s))
            if sink is not None:
                _record(sink, event, step, started_ns)

        try:
            if len(by_host_lane(events)) > 1:
                self._world.lanes.run(events, do, self._credits)
            else:
                for event in events:
                    do(event)
            if mark is not None:
                mark(Phase(step=step))
        finally:
            self._in_flight.clear()
            self._values.clear()
            self._saved.clear()
            if feed.late is not None:
                feed.late.clear()

    def seconds(self) -> dict[StepPart, float]:
        """Seconds of the last program by part of a step, as the host spent them: on a GPU a compute is issued in them.

        Host lanes that run beside each other are added up.
        """
        found = dict.fromkeys(StepPart, 0.0)
        for part, seconds in self._spans:
            found[part] += seconds
        return found

    def _do(self, event: Event, feed: Feed, computes: _Computes) -> None:
        match event.body:
            case Compute(name=name) if name in feed.work:
                feed.work[name]()
            case Compute(name=name):
                self._compute(Action.from_text(name), feed, computes)
            case Send() as body:
                self._send(event.ref, body)
            case Recv() as body:
                self._recv(event.ref, body)
            case Wait(on=ref):
                flight = self._in_flight.pop(ref)
                flight.work.wait()
            case Collective(tensor=str(tensor)):
                feed.work[tensor]()
            case Acquire() as body:
                self._world.lanes.acquire(body)
            case Release() as body:
                self._world.lanes.release(body)
            case Barrier(group=group):
                dist.barrier(group=self._handle(group.label))
            case other:
                raise TypeError(f"a program of the engine cannot hold {other}")

    def _handle(self, label: str | None) -> dist.ProcessGroup:
        assert label is not None, "groups of the engine have labels"
        return self._world.channels[label].handle

    def _send(self, ref: Ref, body: Send) -> None:
        assert body.tensor is not None and body.group is not None, f"an edge without its tensor: {body}"
        tensor = self._values.pop(_result(Action.from_text(body.tensor))).contiguous()
        work = dist.isend(tensor, body.peer, group=self._handle(body.group.label), tag=body.tag or 0)
        assert work is not None, "this rank is not in the group it sends through"
        self._in_flight[ref] = _Flight(work, tensor)

    def _recv(self, ref: Ref, body: Recv) -> None:
        assert body.tensor is not None and body.group is not None, f"an edge without its tensor: {body}"
        assert body.shape is not None, f"an edge without its shape: {body}"
        tensor = torch.empty(body.shape, dtype=self._transfer_dtype, device=self._world.device)
        work = dist.irecv(tensor, body.peer, group=self._handle(body.group.label), tag=body.tag or 0)
        assert work is not None, "this rank is not in the group it receives through"
        self._in_flight[ref] = _Flight(work, tensor)
        self._values[_result(Action.from_text(body.tensor))] = tensor

    def _compute(self, action: Action, feed: Feed, computes: _Computes) -> None:
        self.micro_batch = action.mb
        then, is_last = computes.then.get(action), action in computes.last
        if action not in computes.whole:
            self._run_compute(action, feed, is_last=is_last, then=then)
        elif action.work is Work.INPUT:
            is_last = Action(action.stage, Work.WEIGHT, action.mb) in computes.last
            self._run_compute(Action(action.stage, Work.BACKWARD, action.mb), feed, is_last=is_last, then=then)
        self.micro_batch = None
        self._drop_what_left()

    def _run_compute(self, action: Action, feed: Feed, *, is_last: bool, then: Action | None) -> None:
        """A forward, a whole backward or one of its parts."""
        if feed.before is not None:
            began_s = time.perf_counter()
            feed.before(action, is_last, then)
            self._exchanged(action, time.perf_counter() - began_s)
        match action.work:
            case Work.FORWARD:
                self._forward(action, feed)
            case Work.BACKWARD:
                self._backward(action)
            case _:
                assert feed.late is not None, "a split backward needs a queue of products"
                if action.work is Work.INPUT:
                    with feed.late.collecting(action.stage, action.mb):
                        self._backward(action)
                else:
                    feed.late.run(action.stage, action.mb)
        if feed.after is not None:
            began_s = time.perf_counter()
            feed.after(action)
            self._exchanged(action, time.perf_counter() - began_s)

    def _exchanged(self, action: Action, seconds: float) -> None:
        """Takes what dp's collectives around a compute took from that compute."""
        self._spans.append((StepPart.EXCHANGE, seconds))
        self._spans.append((_part_of(action.work), -seconds))

    def _forward(self, action: Action, feed: Feed) -> None:
        stage, mb = action.stage, action.mb
        received: Tensor | None = None
        if stage == 0:
            assert feed.inputs is not None, "the first stage needs inputs"
            x = feed.inputs[mb]
        else:
            received = x = self._values.pop((stage - 1, True, mb))
            if torch.is_grad_enabled():
                x.requires_grad_()
        output = self._stages[stage](x, None if feed.draws is None else feed.draws[mb])
        if stage == self._num_stages - 1:
            assert feed.loss is not None, "the last stage needs a loss"
            output = feed.loss(mb, output)
        else:
            self._values[_result(action)] = output.detach()
        if torch.is_grad_enabled():
            self._saved[(stage, mb)] = (received, output)

    def _backward(self, action: Action) -> None:
        stage, mb = action.stage, action.mb
        x, output = self._saved.pop((stage, mb))
        grad = None if stage == self._num_stages - 1 else self._values.pop((stage + 1, False, mb))
        torch.autograd.backward((output,), None if grad is None else (grad,))
        if x is not None:
            assert x.grad is not None, f"stage {stage} gave its input no gradient"
            self._values[_result(action)] = x.grad

    def _drop_what_left(self) -> None:
        """Frees tensors whose transfer has ended, so that memory does not wait for the step's end."""
        # A copy: another lane may post a transfer meanwhile.
        for flight in list(self._in_flight.values()):
            if flight.tensor is not None and flight.work.is_completed():
                flight.tensor = None


def _computes(events: Sequence[Event]) -> _Computes:
    actions = [
        Action.from_text(event.body.name) if isinstance(event.body, Compute) and event.body.name[:1].isdigit() else None
        for event in events
    ]
    last: dict[int, Action] = {}
    whole: set[Action] = set()
    for action, after in zip(actions, [*actions[1:], None], strict=True):
        if action is not None and action.work in (Work.BACKWARD, Work.WEIGHT):
            last[action.stage] = action
        if action is not None and action.work is Work.INPUT:
            weights = Action(action.stage, Work.WEIGHT, action.mb)
            whole |= {action, weights} if after == weights else set()
    reading = readers(action for action in actions if action is not None)
    then = dict(zip(reading, [*reading[1:], None], strict=True))
    return _Computes(frozenset(last.values()), frozenset(whole), then)


def part_of(event: Event) -> StepPart:
    """The part of a step that the time of an event of a program belongs to."""
    if not isinstance(event.body, Compute):
        return StepPart.EXCHANGE
    return _part_of(Action.from_text(event.body.name).work) if event.body.name[:1].isdigit() else StepPart.OPTIMIZER


def _part_of(work: Work) -> StepPart:
    return StepPart.FORWARD if work is Work.FORWARD else StepPart.BACKWARD


def _record(sink: Sink, event: Event, step: int | None, started_ns: int) -> None:
    phase = Phase(step=step, micro_batch=event.phase.micro_batch, stage=event.phase.stage, name=event.phase.name)
    # A posted transfer is not complete yet: its Wait says when it was.
    is_posted = isinstance(event.body, Send | Recv)
    sink.put(
        dataclasses.replace(
            event,
            phase=phase,
            issued_ns=started_ns,
            started_ns=None if is_posted else started_ns,
            completed_ns=None if is_posted else time.monotonic_ns(),
            state=State.ISSUED if is_posted else State.COMPLETED,
        )
    )
