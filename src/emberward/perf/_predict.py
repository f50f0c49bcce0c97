"""Prediction of a step: its seconds, its utilisation and where they go, from sizes, a layout and the hardware table.

[Note: prediction]
1. `_block_time` prices each block of the model for one micro-batch, operation by operation.
2. A pipeline stage is its blocks, plus what waits on the host where kernels are launched one by one, plus the
   accumulation of gradients. `_pipeline_time` walks the schedule.
3. dp: a gather of parameters before and a reduce-scatter of gradients after. With `dp_overlap` a rank gathers its
   stages one after the other from the start of the step, and reduces them one after the other from the start of each
   stage's last backward on; else both follow the last backward. For what runs with each micro-batch see
   [Note: sharded parameters].
4. The optimizer streams its shard through memory.
5. All ranks wait for the slowest device: products and attention run at the rate that the slowest of so many draws from
the spread of single devices reaches.

[Note: range]
A range is the prediction times the 5% and the 95% quantile of measured over predicted time in 660 published runs
(docs/preflight.md). It says how wrong predictions were and moves none of them. Ranges made without a source hold 90% of
that source's runs, all 176 sources together.

Ranks lie tp fastest, then dp, then pp. Not predicted: congestion, saves, evaluation.
"""

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from emberward.layout import Block, Model
from emberward.perf._block_time import BlockTime, Casts, Recompute, Share, first_time, last_time, layer_time
from emberward.perf._dp_time import DpTime, dp_link, dp_time, lost_share, outer_numel, sharders
from emberward.perf._flops import hardware_tflops, mfu
from emberward.perf._hardware import Cluster, Link
from emberward.perf._kernels import NCCL_BLOCKS, Cost, all_reduce_s, gather_s, stream_s
from emberward.perf._pipeline_time import Part, Slot, Timeline, run_schedule
from emberward.perf._rings import ring_link
from emberward.perf._step_plan import StepPlan

_DISPATCH_S = 10e-6
"""Dispatch of an operator by a framework of Python, half of what `Device.host_s` takes (assumed)."""

_GRADIENTS = (Part.BACKWARD, Part.WEIGHT)
"""The parts after which the gradients of a stage's parameters are whole."""

_FASTEST, _SLOWEST = 0.86, 1.62
"""See [Note: range]."""

_OPTIMIZER_BYTES = {True: 42.0, False: 98.0}
"""AdamW in float32, bytes a parameter, by whether the stack is fused. Fused: reads parameter, gradient and two moments,
writes parameter, moments and the 16-bit copy (30). Eager: torch/optim/adamw.py's _multi_tensor_adamw, one pass after
another: decay 8, first moment 12, second 8 + 12, its root 8 + 8 + 8, the update 16; the 16-bit copy 6 (86). Both: the
gradients' norm and their scaling (4 + 8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A predicted step. Rates count all ranks but `tokens_per_s_per_rank` and `tflops` (hardware operations a rank).

    `parts_s` splits the step of the pipeline rank that computes longest; `bubble` is the share of all ranks' time in
    which they wait for one another. `fastest_s` and `slowest_s`: see [Note: range].
    """

    step_s: float
    fastest_s: float
    slowest_s: float
    tokens_per_s: float
    tokens_per_s_per_rank: float
    tflops: float
    mfu: float
    bubble: float
    parts_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StageTime:
    """Seconds of one stage for one micro-batch, and its parameters on one rank before dp shards them.

    Of `backward_s`, `weights_s` gives the gradients of the layers' weights; of `numel`, `outer_numel` are gathered
    before any layer and reduced after all. For the lost shares see `lost_share`.
    """

    forward_s: float
    backward_s: float
    weights_s: float
    forward_lost: float
    backward_lost: float
    forward: Cost
    backward: Cost
    numel: float
    outer_numel: float


def _tp_link(cluster: Cluster, plan: StepPlan) -> Link:
    """The link of a tp ring: the network where tp does not fit into a node."""
    return ring_link(cluster, plan.tp, cluster.devices_per_node)


def _stage_layers(plan: StepPlan) -> list[range]:
    """The layers of each stage."""
    ends = list(itertools.accumulate(plan.stage_layers, initial=0))
    return [range(begin, end) for begin, end in itertools.pairwise(ends)]


def _stage_costs(model: Model, cluster: Cluster, plan: StepPlan) -> list[tuple[Cost, Cost, Cost, int]]:
    """Of each stage forward, backward, of it the weights' part, and its parameters on one rank."""
    share = Share(micro_batch=plan.micro_batch, tp=plan.tp, sequence_parallel=plan.how.sequence_parallel)
    on = (cluster.device, _tp_link(cluster, plan))
    known: dict[Hashable, BlockTime] = {}

    def time_of(block: Block) -> BlockTime:
        if block is model.first:
            return first_time(*on, block, share, plan.how)
        if block is model.last:
            return last_time(*on, block, share, plan.how)
        key = (block.operations, block.tp_changes)
        if key not in known:
            known[key] = layer_time(*on, block, share, plan.how)
        return known[key]

    stages = []
    for layers in _stage_layers(plan):
        numbers = model.stage_blocks(layers)
        pieces = [time_of(model.blocks[number]) for number in numbers]
        numel = sum(math.prod(tensor.local_shape(plan.tp, 0)) for tensor in model.tensors_of(numbers))
        add = plan.accumulate_bytes * numel / (sharders(plan) if plan.shards_parameters else 1)
        add = add if plan.num_mb > 1 or plan.keeps_gradients else 0.0
        adding = Cost(memory_s=stream_s(cluster.device, add))
        casting = Cost(memory_s=stream_s(cluster.device, plan.cast_bytes * numel / 2))
        once = _weight_casts(plan)
        forward = sum((piece.forward + piece.casts.times(once) for piece in pieces), casting)
        backward = sum((piece.again + piece.backward for piece in pieces), adding + casting)
        weights = sum((piece.weights for piece in pieces), adding)
        stages.append((forward, backward, weights, numel))
    return stages


def _weight_casts(plan: StepPlan) -> float:
    """How often a micro-batch casts its weights to fp8: not what was gathered in fp8; Transformer Engine casts them
    with the first of a step alone (``is_first_microbatch``)."""
    if plan.gather_bytes < 2.0:
        return 0.0
    return 1.0 if plan.how.casts in (Casts.COMPILED, Casts.EAGER) else 1.0 / plan.num_mb


def _stage_times(model: Model, cluster: Cluster, plan: StepPlan) -> list[_StageTime]:
    taken = replace(cluster, device=replace(cluster.device, taken_sms=NCCL_BLOCKS))
    alone, beside = _stage_costs(model, cluster, plan), _stage_costs(model, taken, plan)
    link = dp_link(cluster, plan, plan.dp if sharders(plan) == 1 else sharders(plan))
    return [
        _StageTime(
            forward_s=_seconds(forward, cluster, plan),
            backward_s=_seconds(backward, cluster, plan),
            weights_s=_seconds(weights, cluster, plan),
            forward_lost=lost_share(forward, slow_forward, cluster, link),
            backward_lost=lost_share(backward, slow_backward, cluster, link),
            forward=forward,
            backward=backward,
            numel=numel,
            outer_numel=outer_numel(model, plan, layers),
        )
        for layers, (forward, backward, weights, numel), (slow_forward, slow_backward, _, _) in zip(
            _stage_layers(plan), alone, beside, strict=True
        )
    ]


def _host_s(cost: Cost, cluster: Cluster, plan: StepPlan) -> float:
    """What the host adds: every kernel's dispatch and wait, or of an unfused stack the dispatches that outlast the
    kernels, which the device waits for."""
    if plan.is_blocking:
        return cost.num_kernels * cluster.device.host_s
    return 0.0 if plan.how.is_fused else max(0.0, cost.num_kernels * _DISPATCH_S - cost.seconds)


def _seconds(cost: Cost, cluster: Cluster, plan: StepPlan) -> float:
    return cost.seconds + _host_s(cost, cluster, plan)


def _transfers_s(model: Model, cluster: Cluster, plan: StepPlan) -> list[float]:
    """Seconds of one result behind each stage but the last, and of its gradient.

    Each tp rank sends its part; whole activations are gathered after.
    """
    link = _pp_link(cluster, plan)
    found = []
    for layers in _stage_layers(plan)[:-1]:
        edge = model.blocks[model.stage_blocks(layers).stop - 1].output
        whole = 2.0 * plan.micro_batch * math.prod(edge.shape)
        is_split = plan.how.sequence_parallel and edge.positions is not None
        gathered = 0.0 if is_split else gather_s(_tp_link(cluster, plan), whole, plan.tp)
        found.append(link.latency_s + whole / plan.tp / link.bytes_per_s + gathered)
    return found


def _slot_s(slot: Slot, plan: StepPlan, stage: _StageTime, dp: DpTime, beside_s: float) -> float:
    """Seconds of a slot with the dp communication of its micro-batch, or with `beside_s` of the step's beside it."""
    compute = _compute_s(slot, stage)
    lost = stage.forward_lost if slot.part is Part.FORWARD else stage.backward_lost
    # The weights' part needs no parameters, and the gradients are whole only with it.
    needs_gather = slot.part is Part.FORWARD or (slot.part is not Part.WEIGHT and not plan.keeps_gathered)
    gathers = plan.shards_parameters and needs_gather
    scatters = slot.part in _GRADIENTS and (plan.shards_parameters or plan.scatters_each)
    if not gathers and not scatters:
        return compute + lost * min(beside_s, compute / (1.0 - lost))
    share = 1.0 if plan.gathered_shares is None else plan.gathered_shares[slot.stage]
    gather_s, scatter_s = share * dp.gather_s if gathers else 0.0, dp.scatter_s if scatters else 0.0
    compute += (share * dp.copy_out_s if gather_s else 0.0) + (dp.copy_in_s if scatters else 0.0)
    # The backward needs the embedding no more, and FSDP's outer unit is still there.
    outer_s = share * dp.outer_gather_s if slot.part is Part.FORWARD else 0.0
    outer_s += dp.outer_scatter_s if scatters else 0.0
    if not plan.dp_overlap:
        return compute + gather_s + scatter_s + outer_s
    ends_s = (gather_s + scatter_s) / dp.pieces
    comm_s = gather_s + scatter_s - ends_s
    return outer_s + ends_s + max(comm_s, compute + lost * comm_s)


def _compute_s(slot: Slot, stage: _StageTime) -> float:
    return {
        Part.FORWARD: stage.forward_s,
        Part.BACKWARD: stage.backward_s,
        Part.INPUT: stage.backward_s - stage.weights_s,
        Part.WEIGHT: stage.weights_s,
    }[slot.part]


def _gathered_s(plan: StepPlan, dp: Sequence[DpTime], first: set[Slot]) -> dict[Slot, float]:
    """When the parameters of each stage's first forward are gathered at the earliest: one stage of a rank after
    another, from the start of the step."""
    gathered: dict[Slot, float] = {}
    if plan.shards_parameters or not plan.dp_overlap:
        return gathered
    for order in plan.orders:
        at_s = 0.0
        for slot in order:
            if slot in first:
                at_s += dp[slot.stage].gather_s
                gathered[slot] = at_s
    return gathered


def _beside_s(plan: StepPlan, dp: Sequence[DpTime]) -> dict[Slot, float]:
    """Seconds of the step's own gathers and reductions that run beside each slot: those of a stage beside its first and
    last micro-batch; where ranks start them together, beside as many micro-batches as there are ranks, the group that
    interleaving runs through a stage at once."""
    beside: dict[Slot, float] = defaultdict(float)
    if plan.shards_parameters or not plan.dp_overlap:
        return beside
    group = min(plan.pp, plan.num_mb) if plan.starts_together else 1
    for order in plan.orders:
        for stage in _stages_of(order):
            forwards = [slot for slot in order if slot.stage == stage and slot.part is Part.FORWARD]
            whole = [slot for slot in order if slot.stage == stage and slot.part in _GRADIENTS]
            for slot in forwards[:group]:
                beside[slot] += dp[stage].gather_s / group
            for slot in whole[-group:]:
                beside[slot] += dp[stage].scatter_s / group
    return beside


def _reduced_s(
    plan: StepPlan, stages: Sequence[_StageTime], dp: Sequence[DpTime], order: Sequence[Slot], timeline: Timeline
) -> float:
    """When a rank has the gradients of its stages summed."""
    last = {slot.stage: slot for slot in order if slot.part in _GRADIENTS}
    end_s = timeline.end_s[order[-1]]
    if plan.shards_parameters:
        return end_s
    gathers_s = 0.0 if plan.dp_overlap else sum(dp[at].gather_s for at in last)
    if plan.scatters_each:
        return end_s + gathers_s
    if not plan.dp_overlap:
        return end_s + gathers_s + sum(dp[at].scatter_s for at in last)
    at_s = 0.0
    for slot in sorted(last.values(), key=lambda slot: timeline.end_s[slot]):
        begin_s = timeline.end_s[slot] - _compute_s(slot, stages[slot.stage])
        at_s = max(at_s, begin_s) + dp[slot.stage].scatter_s
    return max(end_s, at_s)


def _walk(
    model: Model, cluster: Cluster, plan: StepPlan, stages: Sequence[_StageTime], dp: Sequence[DpTime]
) -> tuple[Timeline, float]:
    """The schedule's timeline, and the seconds until the last rank has its gradients summed."""
    first = {
        next(slot for slot in order if slot.stage == stage and slot.part is Part.FORWARD)
        for order in plan.orders
        for stage in _stages_of(order)
    }

    beside_s = _beside_s(plan, dp)

    def cost_s(slot: Slot) -> float:
        return _slot_s(slot, plan, stages[slot.stage], dp[slot.stage], beside_s.get(slot, 0.0))

    behind_s = _transfers_s(model, cluster, plan)

    def transfer_s(slot: Slot) -> float:
        return behind_s[slot.stage if slot.part is Part.FORWARD else slot.stage - 1]

    timeline = run_schedule(
        plan.orders,
        cost_s=cost_s,
        transfer_s=transfer_s,
        is_blocking=plan.is_blocking,
        earliest_s=_gathered_s(plan, dp, first),
    )
    ends = [_reduced_s(plan, stages, dp, order, timeline) for order in plan.orders]
    return timeline, max(ends) + _tied_s(model, cluster, plan)


def _tied_s(model: Model, cluster: Cluster, plan: StepPlan) -> float:
    """Seconds of the sum of the tied embedding's gradient over the first and the last stage."""
    is_alone = any({0, len(plan.stage_layers) - 1} <= _stages_of(order) for order in plan.orders)
    if not model.tied or is_alone:
        return 0.0
    num_bytes = 4.0 * sum(math.prod(model.tensors[name].local_shape(plan.tp, 0)) for name in model.tied)
    return all_reduce_s(_pp_link(cluster, plan), num_bytes, 2)


def _pp_link(cluster: Cluster, plan: StepPlan) -> Link:
    return cluster.inside if plan.num_ranks <= cluster.devices_per_node else cluster.between


def _stages_of(order: Sequence[Slot]) -> set[int]:
    return {slot.stage for slot in order}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walked:
    """What was walked for a step: its stages, the timeline, and where its communication and optimizer end."""

    stages: Sequence[_StageTime]
    timeline: Timeline
    summed_s: float
    optimizer_s: float


def _step(model: Model, cluster: Cluster, plan: StepPlan) -> tuple[_Walked, float]:
    """A step walked, and the seconds that are priced."""
    stages = _stage_times(model, cluster, plan)
    dp = [
        dp_time(cluster, plan, numel=stage.numel, outer_numel=stage.outer_numel, layers=layers)
        for stage, layers in zip(stages, plan.stage_layers, strict=True)
    ]
    timeline, summed_s = _walk(model, cluster, plan, stages, dp)
    held = [sum(stages[at].numel for at in _stages_of(order)) for order in plan.orders]
    moved = _OPTIMIZER_BYTES[plan.how.is_fused] if plan.optimizer_bytes is None else plan.optimizer_bytes
    whole = plan.bucket_bytes + (plan.accumulate_bytes / 2 if plan.keeps_gradients else 0.0)
    optimizer_s = stream_s(cluster.device, (moved / sharders(plan) + whole) * max(held))
    walked = _Walked(stages=stages, timeline=timeline, summed_s=summed_s, optimizer_s=optimizer_s)
    return walked, summed_s + optimizer_s


def _with_slowest(cluster: Cluster, num_ranks: int) -> Cluster:
    """The cluster at the clock of the slowest of `num_ranks` devices, expected where they are normally distributed
    (Blom 1958)."""
    deviations = statistics.NormalDist().inv_cdf((num_ranks - 0.375) / (num_ranks + 0.25))
    device = cluster.device
    slowest = 1.0 - device.chip_spread * deviations
    return replace(cluster, device=replace(device, clock_share=device.clock_share * slowest))


def predict(model: Model, cluster: Cluster, plan: StepPlan) -> Prediction:
    """The predicted step. See [Note: prediction]. Raises ValueError for a schedule that cannot go on."""
    walked, step_s = _step(model, _with_slowest(cluster, plan.num_ranks), plan)
    samples_per_s = plan.global_batch / step_s
    tokens_per_s = samples_per_s * model.sample.num_units
    return Prediction(
        step_s=step_s,
        fastest_s=_FASTEST * step_s,
        slowest_s=_SLOWEST * step_s,
        tokens_per_s=tokens_per_s,
        tokens_per_s_per_rank=tokens_per_s / plan.num_ranks,
        tflops=hardware_tflops(
            model,
            recompute=plan.how.recompute is Recompute.LAYER,
            global_batch=plan.global_batch,
            step_s=step_s,
            num_ranks=plan.num_ranks,
        ),
        mfu=mfu(model, samples_per_s=samples_per_s, num_ranks=plan.num_ranks, peak_tflops=cluster.device.peak_tflops)
        or 0.0,
        bubble=walked.timeline.bubble,
        parts_s=_parts(cluster, plan, walked),
    )


def _parts(cluster: Cluster, plan: StepPlan, walked: _Walked) -> dict[str, float]:
    """The step of the busiest pipeline rank by what bounds it, in seconds."""
    stages, timeline, summed_s = walked.stages, walked.timeline, walked.summed_s
    rank = max(range(plan.pp), key=lambda each: timeline.busy_s[each])
    total = Cost()
    for at in _stages_of(plan.orders[rank]):
        total = total + (stages[at].forward + stages[at].backward).times(plan.num_mb)
    host_s = sum(
        _host_s(cost, cluster, plan) * plan.num_mb
        for at in _stages_of(plan.orders[rank])
        for cost in (stages[at].forward, stages[at].backward)
    )
    return {
        "matmul": total.matmul_s,
        "attention": total.attention_s,
        "memory": total.memory_s,
        "tp": total.tp_s,
        "host": total.gaps_s + host_s,
        "dp": max(0.0, timeline.busy_s[rank] - total.seconds - host_s) + summed_s - timeline.seconds,
        "waiting": timeline.seconds - timeline.busy_s[rank],
        "optimizer": walked.optimizer_s,
    }
