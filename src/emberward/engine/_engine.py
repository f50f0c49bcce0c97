"""The engine: one rank's share of a model, and what can be done with it: a step, an evaluation, a sample, a save."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from emberward.checkpoint import Shard
from emberward.draws import Draws
from emberward.engine._by_name import Quantity, read_named, write_named
from emberward.engine._debug import DebugHooks
from emberward.engine._executor import Executor, Feed, StepPart
from emberward.engine._gradients import (
    StepTotals,
    divisor,
    read_totals,
    reduce_over_dp,
    reduce_replicated,
    reduce_tied,
    scale_gradients,
    sum_totals,
)
from emberward.engine._inspect import Inspection, inspected
from emberward.engine._optimizer import LocalAdamW, LossScale
from emberward.engine._replicas import Replica, replicas_of, tp_shared
from emberward.engine._sampling import draw_token
from emberward.engine._shard import ParameterPart, initialise, materialise, parameter_parts
from emberward.engine._stage import StageModule, modules_of
from emberward.engine._world import World
from emberward.engine._zero import COMPUTE_DTYPE, StageShards
from emberward.events import Body, Collective, CollectiveOp, Compute, Event, ReduceOp, Sink
from emberward.families import model_of
from emberward.families.layers import TensorAxis, WeightQueue, defer_weights, gather_vocabulary
from emberward.layout import Axis
from emberward.plan import Action, Pipe, Schedule, Work, forward_only, lane_credits, pipeline_program, two_lane_program
from emberward.recipe import (
    ComputeType,
    Recipe,
    ZeroStage,
    ends_of,
    gathered_bytes_of,
    launches_of,
    layers_of_stages,
    parse_debug,
    schedule_of,
    stage_map_of,
    two_lanes_of,
)

_TRAIN, _FORWARD = "train", "forward"
"""Kinds of programs: a step; forwards alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Inputs, labels and weights of B samples in the shapes of the model's `Sample`; a weight of 0 counts for nothing.

    `samples` are the samples' numbers in the run, B of them, from which a model with dropout draws; None: nothing is
    drawn.
    """

    inputs: Tensor
    labels: Tensor
    weights: Tensor
    samples: tuple[int, ...] | None = None


class Engine:
    """This rank's stages with their optimizer. Every method but the properties must be called by all ranks together,
    in the same order, and blocks until its collectives are done."""

    def __init__(self, recipe: Recipe, world: World) -> None:
        self.recipe = recipe
        self.world = world
        self.model = model_of(recipe.model)
        self.axis: TensorAxis | None = world.tensor_axis(sequence_parallel=recipe.splits_sequence)
        self._layers = layers_of_stages(recipe)
        self._stage_map = stage_map_of(recipe)
        assert world.ends == ends_of(recipe), "the world was made for another stage map"
        self._two_lanes = two_lanes_of(recipe, pp_rank=world.at(Axis.PP), tp_rank=world.at(Axis.TP))
        self._late = WeightQueue() if self._stage_map.split else None
        self._shards: dict[int, StageShards] = {}
        self._stages = self._build_stages()
        self.parts: list[ParameterPart] = parameter_parts(
            self._stages,
            world,
            held=lambda index, param: self._shards[index].master_of(param) if index in self._shards else param,
            splits_positions=recipe.splits_sequence,
            num_stages=len(self._layers),
        )
        initialise(self.parts, seed=recipe.seed)
        self._loss = modules_of(recipe.model).loss
        self.optimizer = LocalAdamW(self.parts, recipe.optim)
        self.loss_scale = LossScale.first(recipe.precision)
        self._dtype = COMPUTE_DTYPE[recipe.precision.compute]
        self._executor = Executor(
            self._stages,
            len(self._layers),
            world,
            transfer_dtype=self._dtype,
            credits=lane_credits(recipe.layout.lane_credit),
        )
        self._programs: dict[tuple[str, int, int], tuple[Event, ...]] = {}
        self.step_seconds: dict[StepPart, float] = {}
        """Of the last step, by part. See `Executor.seconds`."""
        self._debug = DebugHooks(
            [parse_debug(text) for text in recipe.debug],
            list(self._stages.values()),
            self.parts,
            world,
            micro_batch=lambda: self._executor.micro_batch,
        )

    def _build_stages(self) -> dict[int, StageModule]:
        recipe, world = self.recipe, self.world
        stages = {}
        for index in self._stage_map.stages_of(world.at(Axis.PP)):
            stage = StageModule(recipe.model, self.model.stage_blocks(self._layers[index]), self.axis)
            if self._late is not None:
                defer_weights(stage.layers, self._late)
            compute, zero = recipe.precision.compute, recipe.layout.zero
            if self._two_lanes is None and (world.dp_size > 1 or compute is not ComputeType.FP32):
                self._shards[index] = StageShards(stage, world, zero=zero, compute=compute, device=recipe.device)
            else:
                materialise(stage, world.device)
            stages[index] = stage
        if recipe.layout.zero is ZeroStage.PARAMETERS:
            room_bytes = gathered_bytes_of(recipe)
            is_enough = sum(shards.gathered_bytes for shards in self._shards.values()) <= room_bytes
            for shards in self._shards.values():
                shards.hold(None if is_enough else room_bytes)
        return stages

    def _edge_shapes(self, batch: int) -> tuple[tuple[int, ...], ...]:
        """Shape, on this rank, of what travels behind each stage but the last, for a micro-batch of `batch` samples."""
        splits, tp = self.recipe.splits_sequence, self.world.size(Axis.TP)
        lasts = [self.model.stage_blocks(layers).stop - 1 for layers in self._layers[:-1]]
        return tuple(self.model.blocks[last].output.local_shape(batch, tp, splits_positions=splits) for last in lasts)

    @property
    def is_loss_rank(self) -> bool:
        """Whether this rank's sums of losses count: last stage, tp rank 0."""
        return len(self._layers) - 1 in self._stages and self.world.at(Axis.TP) == 0

    @property
    def needs_data(self) -> bool:
        """Whether this rank reads data at all: it holds the first or the last stage."""
        return 0 in self._stages or len(self._layers) - 1 in self._stages

    @property
    def num_parameters(self) -> int:
        """Parameters of the whole model. Does not communicate."""
        return self.model.num_parameters

    # -- programs ----------------------------------------------------------------------------------------------------

    def train_program(self, num_mb: int) -> tuple[Event, ...]:
        """This rank's program for a step of `num_mb` micro-batches. Does not communicate."""
        return self._program_of(_TRAIN, num_mb, self.recipe.batch.micro_batch or 1)

    def _program_of(self, kind: str, num_mb: int, batch: int) -> tuple[Event, ...]:
        """This rank's program of a kind, for `num_mb` micro-batches of `batch` samples; the same object each time."""
        key = (kind, num_mb, batch)
        if key not in self._programs:
            if kind == _FORWARD:
                made = self._program(forward_only(self._stage_map, num_mb), batch, ())
            elif self._two_lanes is None:
                made = self._program(schedule_of(self.recipe, num_mb), batch, self._tail())
            else:
                schedule = schedule_of(self.recipe, num_mb)
                made = two_lane_program(schedule, self._pipe(batch), self._two_lanes, tail=self._tail())
            self._programs[key] = made
        return self._programs[key]

    def _run(
        self, kind: str, num_mb: int, batch: int, feed: Feed, *, step: int | None = None, sink: Sink | None = None
    ) -> None:
        """Runs a program of this rank. All ranks must call; blocks."""
        self._executor.run(self._program_of(kind, num_mb, batch), feed, step=step, sink=sink)

    def _pipe(self, batch: int) -> Pipe:
        dtype = str(self._dtype).removeprefix("torch.")
        return Pipe.over(self.world.pipe_ranks, mesh=self.world.mesh, dtype=dtype, shapes=self._edge_shapes(batch))

    def _program(self, schedule: Schedule, batch: int, tail: Sequence[Body]) -> tuple[Event, ...]:
        launches = launches_of(self.recipe)
        return pipeline_program(schedule, self._pipe(batch), self.world.at(Axis.PP), tail=tail, launches=launches)

    def _tail(self) -> list[Body]:
        """What ends a step on every rank, in this order: see `_gradients.py`."""
        tail: list[Body] = []
        for tensor, channel, parts in self._reductions():
            if channel is None:
                tail.append(Compute(name=tensor))
                continue
            tail.append(
                Collective(
                    op=CollectiveOp.ALL_REDUCE,
                    group=self.world.channels[channel].group,
                    dtype="float32",
                    numel=sum(_summed_numel(part, channel, self.world) for part in parts),
                    reduce_op=ReduceOp.SUM,
                    tensor=tensor,
                )
            )
        tail.append(
            Collective(
                op=CollectiveOp.ALL_REDUCE,
                group=self.world.channels["world"].group,
                dtype="float64",
                numel=6,
                reduce_op=ReduceOp.SUM,
                tensor="step_totals",
            )
        )
        tail.append(Compute(name="optimizer"))
        return tail

    def _reductions(self) -> Iterator[tuple[str, str | None, list[ParameterPart]]]:
        """(tensor, channel, parts) of the gradient sums that follow the last backward; without a channel on this rank
        alone."""
        if self._two_lanes is not None and self.world.dp_size > 1:
            yield "grads_over_dp", Axis.DP_REPLICATE.value, self.parts
        partial = [part for part in self.parts if part.is_tp_partial]
        if partial:
            yield "grads_of_tp_replicas", Axis.TP.value, partial
        tied = [part for part in self.parts if part.is_tied]
        if tied:
            yield "grads_of_tied_ends", None if self.world.ends[0] == self.world.ends[1] else "tied", tied

    # -- a step ------------------------------------------------------------------------------------------------------

    def train_step(
        self,
        micro_batches: Sequence[MicroBatch],
        *,
        lr: float,
        step: int,
        is_stopping: bool = False,
        is_switched_off: bool = False,
        sink: Sink | None = None,
        before_update: Callable[[], None] | None = None,
        is_trial: bool = False,
        judge: Callable[[StepTotals], None] | None = None,
    ) -> StepTotals:
        """Runs one step and updates the parameters, unless a gradient was not finite; returns its totals.

        Every rank passes as many micro-batches; a rank that needs no data may pass empty tensors. A trial makes the
        same calls and changes nothing.
        `before_update` is called with the final, clipped gradients in place (tests and tools look at them there);
        `judge` is told the totals before anything is changed by them, and may raise, alike on every rank. The host
        reads the totals once: before the update where one of the two is given, else after it was issued.
        """
        size = self.recipe.batch.micro_batch or 1
        scale = self.loss_scale.scale
        nominal = float(len(micro_batches) * self.world.dp_size * size * self.model.sample.num_units)
        sums: list[tuple[Tensor, Tensor]] = []
        summed: list[Tensor] = []
        totals: list[StepTotals] = []

        def loss(mb: int, logits: Tensor) -> Tensor:
            loss_sum, count = self._loss_sums(logits, micro_batches[mb])
            sums.append((loss_sum.detach(), count))
            return loss_sum * (scale / nominal)

        def read() -> StepTotals:
            if not totals:
                totals.append(read_totals(summed[0], self.world, nominal_tokens=nominal, loss_scale=scale))
            return totals[0]

        def sum_over_world() -> None:
            own = self._own_sums(sums)
            stops = {"is_stopping": is_stopping, "is_switched_off": is_switched_off}
            summed[:] = [sum_totals(self.parts, self.world, own_sums=own, **stops)]
            totals.clear()  # a dry run may execute a step twice
            if judge is not None:
                judge(read())

        def update() -> None:
            if is_trial:
                read()
                return
            over = divisor(summed[0], nominal_tokens=nominal, loss_scale=scale, clip=self.recipe.optim.clip)
            if before_update is not None and read().is_finite and read().num_tokens:
                scale_gradients(self.parts, over.by)
                before_update()
            self.optimizer.step(lr, over, is_divided=before_update is not None)
            if read().is_finite and read().num_tokens:
                self.optimizer.count_update()
            self.loss_scale = self.loss_scale.after(is_finite=read().is_finite)

        feed = Feed(
            inputs=[each.inputs for each in micro_batches],
            loss=loss,
            draws=self._draws(micro_batches, step),
            work={
                "grads_over_dp": lambda: reduce_over_dp(self.parts, self.world),
                "grads_of_tp_replicas": lambda: reduce_replicated(self.parts, self.world),
                "grads_of_tied_ends": lambda: reduce_tied(self.parts, self.world),
                "step_totals": sum_over_world,
                "optimizer": update,
            },
            before=self._before,
            late=self._late,
            after=self._after,
        )
        try:
            with self._debug.step(step):
                self._run(_TRAIN, len(micro_batches), size, feed, step=step, sink=sink)
        finally:
            for shards in self._shards.values():
                shards.end()
            for part in self.parts:
                part.param.grad = None
        self.step_seconds = self._executor.seconds()
        return read()

    def inspected(self) -> AbstractContextManager[Inspection]:
        """Watches every operation of the steps that this thread runs while it is open. Slow. See `_inspect.py`."""
        return inspected(list(self._stages.values()), self.parts)

    def _draws(self, micro_batches: Sequence[MicroBatch], step: int) -> list[Draws] | None:
        """What each micro-batch's random numbers are drawn from; None when its samples have no numbers."""
        return [
            Draws(seed=self.recipe.seed, step=step, samples=each.samples)
            for each in micro_batches
            if each.samples is not None
        ] or None

    def _loss_sums(self, outputs: Tensor, batch: MicroBatch) -> tuple[Tensor, Tensor]:
        """Sum of the weighted losses in nats, and the sum of the weights."""
        return self._loss(outputs, batch.labels, batch.weights, self.axis)

    def _own_sums(self, sums: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """(loss, tokens) that this rank counted, float64 on the device."""
        if not self.is_loss_rank or not sums:
            return torch.zeros(2, dtype=torch.float64, device=self.world.device)
        return torch.stack([torch.stack(each).double().sum() for each in zip(*sums, strict=True)])

    def _before(self, action: Action, is_last: bool, then: Action | None) -> None:
        """What dp shards and sums is told of each compute. See `_zero.py` [Note: ZeRO on flat buffers]."""
        shards = self._shards.get(action.stage)
        if shards is None:
            return
        reduces = is_last or (action.work is not Work.INPUT and self.recipe.layout.zero >= ZeroStage.GRADIENTS)
        match action.work:
            case Work.FORWARD:
                shards.before_forward(action, then)
            case Work.WEIGHT:
                shards.before_weights(reduces=reduces, is_last=is_last)
            case _:
                shards.before_backward(action, then, reduces=reduces, is_last=is_last)

    def _after(self, action: Action) -> None:
        if action.stage in self._shards:
            self._shards[action.stage].after_compute()

    # -- without gradients -------------------------------------------------------------------------------------------

    @torch.no_grad()
    def evaluate(
        self, micro_batches: Sequence[MicroBatch], *, sink: Sink | None = None, name: str = ""
    ) -> tuple[float, float]:
        """(sum of losses in nats, number of tokens) over the micro-batches of all dp ranks, the same on every rank.

        Every rank passes as many micro-batches of one size; padding has weight 0.
        """
        sums: list[tuple[Tensor, Tensor]] = []

        def loss(mb: int, logits: Tensor) -> Tensor:
            sums.append(self._loss_sums(logits, micro_batches[mb]))
            return logits

        self._forward([each.inputs for each in micro_batches], loss, sink=sink)
        totals = self._own_sums(sums)
        dist.all_reduce(totals, group=self.world.channels["world"].handle)
        loss_sum, count = self.world.read("eval_totals", totals)
        return loss_sum, count

    def _forward(
        self, inputs: Sequence[Tensor], loss: Callable[[int, Tensor], Tensor], *, sink: Sink | None = None
    ) -> None:
        feed = Feed(inputs=inputs, loss=loss, before=self._before, after=self._after)
        try:
            self._run(_FORWARD, len(inputs), inputs[0].shape[0], feed, sink=sink)
        finally:
            for shards in self._shards.values():
                shards.end()

    @torch.no_grad()
    def logits(self, tokens: Tensor) -> Tensor | None:
        """Logits [B, S, V] of the whole vocabulary on the ranks of the last stage, None elsewhere."""
        found: list[Tensor] = []

        def keep(mb: int, logits_BSV: Tensor) -> Tensor:
            logits_BSV = gather_vocabulary(logits_BSV, self.axis)
            found.append(logits_BSV)
            return logits_BSV

        self._forward([tokens], keep)
        return found[0] if found else None

    def generate(self, prompt: Sequence[int], num_tokens: int, *, seed: int, temperature: float = 0.8) -> list[int]:
        """`prompt` continued by `num_tokens` sampled tokens, the same on every rank."""
        found = self.continue_tokens(prompt, seed=seed, temperature=temperature)
        return [*(list(prompt) or [0]), *itertools.islice(found, num_tokens)]

    @torch.no_grad()
    def continue_tokens(
        self, prompt: Sequence[int], *, seed: int, temperature: float, top_k: int | None = None
    ) -> Iterator[int]:
        """The tokens after `prompt`, without end, the same on every rank; each blocks until it is drawn.

        Temperature 0 takes the likeliest token; `top_k` draws among that many likeliest, None among all.
        """
        generator = torch.Generator().manual_seed(seed)
        length = self.model.sample.num_units
        source = self.world.mesh.rank_at({Axis.PP: self._stage_map.rank_of(len(self._layers) - 1)})
        ids = list(prompt) or [0]
        while True:
            window = ids[-length:]
            tokens = torch.zeros((1, length), dtype=torch.int64, device=self.world.device)
            tokens[0, : len(window)] = torch.tensor(window)
            logits = self.logits(tokens)
            picked = torch.zeros(1, dtype=torch.int64, device=self.world.device)
            if logits is not None:
                picked[0] = draw_token(logits[0, len(window) - 1].float().cpu(), temperature, top_k, generator)
            dist.broadcast(picked, src=source, group=self.world.channels["world"].handle)
            ids.append(int(self.world.read("sampled_token", picked)[0]))
            yield ids[-1]

    # -- state -------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def read(self, name: str, what: Quantity = Quantity.VALUE) -> Tensor:
        """A parameter's whole float32 value, gradient or moment, the same bits on every rank. See `_by_name.py`.

        One all-reduce of its size. Raises ConfigError K102 for a name that the model lacks, ValueError for a gradient
        outside `before_update`.
        """
        return read_named(self.parts, self.optimizer, self.world, self.model.shapes, name, what)

    @torch.no_grad()
    def write(self, name: str, value: Tensor, what: Quantity = Quantity.VALUE) -> None:
        """Sets it, on every rank that holds a part, to the float32 `value` of rank 0; raises as `read` does."""
        write_named(self.parts, self.optimizer, self.world, self.model.shapes, name, value, what)

    def shards(self, *, owned_only: bool) -> list[Shard]:
        """Parameters and moments as pieces of logical tensors, sharing storage with the engine's own.

        With `owned_only` every element of the model is in exactly one rank's list: for a save. Without: for a load.
        """
        pieces = [
            self._shard(f"model/{part.name}", part, part.local)
            for part in self.parts
            if part.is_owner or not owned_only
        ]
        for moment, part, tensor in self.optimizer.moments():
            if part.is_owner or not owned_only:
                pieces.append(self._shard(f"optim/{moment}/{part.name}", part, tensor))
        return pieces

    @property
    def tp_shared(self) -> int:
        """How many tp neighbours share the parts that only some of tp hold alike; 1 without such parts."""
        return tp_shared(self.parts, self.world)

    def replicas(self) -> list[Replica]:
        """This rank's tensors that other ranks hold as well. See `_replicas.py`. Does not communicate."""
        return replicas_of(self.parts, self.optimizer, self.world)

    @staticmethod
    def _shard(name: str, part: ParameterPart, tensor: Tensor) -> Shard:
        return Shard(name=name, global_shape=part.shape, box=part.box, tensor=tensor)

    def state(self) -> Mapping[str, float | int]:
        """The scalars of the engine's state, the same on every rank."""
        return {
            "num_updates": self.optimizer.num_updates,
            "loss_scale": self.loss_scale.scale,
            "loss_scale_num_good": self.loss_scale.num_good,
        }

    def load_state(self, state: Mapping[str, float | int]) -> None:
        """Takes back what `state` gave; parameters and moments were filled through `shards`."""
        self.optimizer.set_num_updates(int(state["num_updates"]))
        self.loss_scale = LossScale(
            scale=float(state["loss_scale"]),
            window=self.loss_scale.window,
            num_good=int(state["loss_scale_num_good"]),
        )


def _summed_numel(part: ParameterPart, channel: str, world: World) -> int:
    """Elements of a part in a gradient sum: over tp a part that only neighbours share travels in each one's place."""
    return part.local.numel() * (world.size(Axis.TP) // part.tp_copies if channel == Axis.TP.value else 1)
