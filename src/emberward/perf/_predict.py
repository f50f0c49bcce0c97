"""Prediction of a step: its seconds, its utilisation and where they go, from sizes, a layout and the hardware table.

[Note: prediction]
1. `_layer_time` prices a layer, the embedding and the head for one micro-batch, operation by operation.
2. A pipeline stage is its layers, plus what waits on the host where kernels are launched one by one, plus the
   accumulation of gradients. `_pipeline_time` walks the schedule.
3. dp: a gather of parameters before and a reduce-scatter of gradients after; with `dp_overlap` a layer's gather runs
   beside the layer before it, so that each stage pays max(compute, communication) where they meet.
4. The optimizer streams its shard through memory.
Ranks lie tp fastest, then dp, then pp. Not predicted: data loading, host stalls, stragglers, congestion, saves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from emberward.layout import Decoder
from emberward.perf._flops import hardware_tflops, mfu, model_flops_per_token
from emberward.perf._hardware import Cluster, Link
from emberward.perf._kernels import Cost, all_reduce_s, gather_s, stream_s
from emberward.perf._layer_time import Numerics, Recompute, first_time, last_time, layer_time
from emberward.perf._pipeline_time import Slot, Timeline, run_schedule

_OPTIMIZER_BYTES = 30.0
"""AdamW in float32: reads parameter, gradient and two moments, writes parameter, moments and the 16-bit copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """How a step is run. `orders` is the schedule, one tuple a pipeline rank; `stage_layers` the layers of each stage.

    `shards_parameters`: gathered for each micro-batch and pass (ZeRO-3) instead of once a step. `accumulate_bytes`:
    bytes moved a parameter and micro-batch to add its gradient, 10 where a 16-bit gradient is added to a float32 one, 8
    where the product itself adds. `reduce_bytes` and `gather_bytes`: widths of gradients and parameters on the wire;
    twice the width stands for an all-reduce. `is_blocking`: each kernel is waited for and transfers between stages run
    alone (CUDA_LAUNCH_BLOCKING=1); without it both overlap.
    """

    tp: int
    dp: int
    micro_batch: int
    num_mb: int
    orders: tuple[tuple[Slot, ...], ...]
    stage_layers: tuple[int, ...]
    how: Numerics
    shards_parameters: bool = False
    dp_overlap: bool = True
    accumulate_bytes: float = 10.0
    reduce_bytes: float = 4.0
    gather_bytes: float = 2.0
    is_blocking: bool = False

    @property
    def pp(self) -> int:
        """Number of pipeline ranks."""
        return len(self.orders)

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return self.tp * self.dp * self.pp

    @property
    def global_batch(self) -> int:
        """Samples of a step."""
        return self.micro_batch * self.num_mb * self.dp


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A predicted step. Rates count all ranks but `tokens_per_s_per_rank` and `tflops` (hardware operations a rank).

    `parts_s` splits the step of the pipeline rank that computes longest; `bubble` is the share of all ranks' time
    in which they wait for one another.
    """

    step_s: float
    tokens_per_s: float
    tokens_per_s_per_rank: float
    tflops: float
    mfu: float
    bubble: float
    parts_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StageTime:
    """Seconds of one stage for one micro-batch, and its parameters on one rank before dp shards them."""

    forward_s: float
    backward_s: float
    forward: Cost
    backward: Cost
    numel: float


def _dp_link(cluster: Cluster, plan: StepPlan) -> Link:
    """The link of a dp ring: inside a node if dp fits there, else the network, which all rings of a node share.

    A ring leaves a node once for its members there, so that it has their shares together.
    """
    members = max(1, min(plan.dp, cluster.devices_per_node // plan.tp))
    if members >= plan.dp:
        return cluster.inside
    rate = min(members * cluster.between.bytes_per_s, cluster.inside.bytes_per_s)
    return Link(bytes_per_s=rate, all_reduce_bytes_per_s=rate, latency_s=cluster.between.latency_s, source="shared")


def _stage_numel(decoder: Decoder, stage: int, layers: int, num_stages: int, tp: int) -> float:
    edge = decoder.vocab_size * decoder.hidden
    ends = (stage == 0) + (stage == num_stages - 1 and (num_stages > 1 or not decoder.is_tied))
    return (layers * decoder.layer_numel() + ends * edge) / tp


def _stage_times(decoder: Decoder, cluster: Cluster, plan: StepPlan) -> list[_StageTime]:
    device, inside, sizes = cluster.device, cluster.inside, {"micro_batch": plan.micro_batch, "tp": plan.tp}
    layer = layer_time(device, inside, decoder, how=plan.how, **sizes)
    first = first_time(device, inside, decoder, how=plan.how, **sizes)
    last = last_time(device, inside, decoder, how=plan.how, **sizes)
    num_stages = len(plan.stage_layers)
    stages = []
    for stage, count in enumerate(plan.stage_layers):
        pieces = [layer.times(count)]
        pieces += [first] if stage == 0 else []
        pieces += [last] if stage == num_stages - 1 else []
        numel = _stage_numel(decoder, stage, count, num_stages, plan.tp)
        add = plan.accumulate_bytes * numel if plan.num_mb > 1 else 0.0
        forward = sum((piece.forward for piece in pieces), Cost())
        backward = sum((piece.again + piece.backward for piece in pieces), Cost(memory_s=stream_s(device, add)))
        stages.append(
            _StageTime(
                forward_s=_seconds(forward, cluster, plan),
                backward_s=_seconds(backward, cluster, plan),
                forward=forward,
                backward=backward,
                numel=numel,
            )
        )
    return stages


def _seconds(cost: Cost, cluster: Cluster, plan: StepPlan) -> float:
    return cost.seconds + (cost.num_kernels * cluster.device.host_s if plan.is_blocking else 0.0)


def _transfer_s(decoder: Decoder, cluster: Cluster, plan: StepPlan) -> float:
    """Seconds of one result between stages: each tp rank sends its part; whole activations are gathered after."""
    whole = 2.0 * plan.micro_batch * decoder.seq_len * decoder.hidden
    link = _pp_link(cluster, plan)
    gathered = 0.0 if plan.how.sequence_parallel else gather_s(cluster.inside, whole, plan.tp)
    return link.latency_s + whole / plan.tp / link.bytes_per_s + gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class _DpTime:
    """Seconds of a stage's dp communication: one gather of its parameters, one reduce-scatter of its gradients."""

    gather_s: float
    scatter_s: float


def _dp_times(cluster: Cluster, plan: StepPlan, stages: Sequence[_StageTime]) -> list[_DpTime]:
    link = _dp_link(cluster, plan)
    return [
        _DpTime(
            gather_s=gather_s(link, plan.gather_bytes * stage.numel, plan.dp),
            scatter_s=gather_s(link, plan.reduce_bytes * stage.numel, plan.dp),
        )
        for stage in stages
    ]


def _slot_s(slot: Slot, plan: StepPlan, stage: _StageTime, dp: _DpTime, *, is_first: bool) -> float:
    """Seconds of a slot with the dp communication that it cannot go on without."""
    compute = stage.backward_s if slot.is_backward else stage.forward_s
    comm = 0.0
    if plan.shards_parameters:
        comm = dp.gather_s + (dp.scatter_s if slot.is_backward else 0.0)
    elif is_first and plan.dp_overlap:
        comm = dp.gather_s
    return max(compute, comm) if plan.dp_overlap else compute + comm


def _tail_s(plan: StepPlan, stages: Sequence[_StageTime], dp: Sequence[_DpTime], order: Sequence[Slot]) -> float:
    """Seconds of dp communication after a rank's last slot: what its last backwards do not hide, or all of it."""
    if plan.shards_parameters:
        return 0.0
    if plan.dp_overlap:
        return sum(max(0.0, dp[at].scatter_s - stages[at].backward_s) for at in _stages_of(order))
    return sum(dp[at].gather_s + dp[at].scatter_s for at in _stages_of(order))


def _walk(
    decoder: Decoder, cluster: Cluster, plan: StepPlan, stages: Sequence[_StageTime], dp: Sequence[_DpTime]
) -> tuple[Timeline, float]:
    """The schedule's timeline, and the seconds until the last rank has its gradients summed."""
    first = {
        next(slot for slot in order if slot.stage == stage and not slot.is_backward)
        for order in plan.orders
        for stage in _stages_of(order)
    }

    def cost_s(slot: Slot) -> float:
        return _slot_s(slot, plan, stages[slot.stage], dp[slot.stage], is_first=slot in first)

    transfer_s = _transfer_s(decoder, cluster, plan) if plan.pp > 1 else 0.0
    timeline = run_schedule(plan.orders, cost_s=cost_s, transfer_s=transfer_s, is_blocking=plan.is_blocking)
    ends = [timeline.end_s[order[-1]] + _tail_s(plan, stages, dp, order) for order in plan.orders]
    return timeline, max(ends) + _tied_s(decoder, cluster, plan)


def _tied_s(decoder: Decoder, cluster: Cluster, plan: StepPlan) -> float:
    """Seconds of the sum of the tied embedding's gradient over the first and the last stage."""
    if not decoder.is_tied or plan.pp == 1:
        return 0.0
    num_bytes = 4.0 * decoder.vocab_size * decoder.hidden / plan.tp
    return all_reduce_s(_pp_link(cluster, plan), num_bytes, 2)


def _pp_link(cluster: Cluster, plan: StepPlan) -> Link:
    return cluster.inside if plan.num_ranks <= cluster.devices_per_node else cluster.between


def _stages_of(order: Sequence[Slot]) -> set[int]:
    return {slot.stage for slot in order}


def predict(decoder: Decoder, cluster: Cluster, plan: StepPlan) -> Prediction:
    """The predicted step. See [Note: prediction]. Raises ValueError for a schedule that cannot go on."""
    stages = _stage_times(decoder, cluster, plan)
    dp = _dp_times(cluster, plan, stages)
    timeline, summed_s = _walk(decoder, cluster, plan, stages, dp)
    held = [sum(stages[at].numel for at in _stages_of(order)) for order in plan.orders]
    optimizer_s = stream_s(cluster.device, _OPTIMIZER_BYTES * max(held) / plan.dp)
    step_s = summed_s + optimizer_s
    tokens_per_s = plan.global_batch * decoder.seq_len / step_s
    sizes: dict[str, Any] = {
        "num_layers": decoder.num_layers,
        "hidden": decoder.hidden,
        "seq_len": decoder.seq_len,
        "vocab_size": decoder.vocab_size,
        "ffn_hidden": decoder.ffn_hidden,
        "is_gated": decoder.is_gated,
        "kv_width": decoder.kv_width,
    }
    return Prediction(
        step_s=step_s,
        tokens_per_s=tokens_per_s,
        tokens_per_s_per_rank=tokens_per_s / plan.num_ranks,
        tflops=hardware_tflops(
            **sizes,
            global_batch=plan.global_batch,
            step_s=step_s,
            num_ranks=plan.num_ranks,
            recompute=plan.how.recompute is Recompute.LAYER,
        ),
        mfu=mfu(
            flops_per_token=model_flops_per_token(**sizes),
            tokens_per_s=tokens_per_s,
            num_ranks=plan.num_ranks,
            peak_tflops=cluster.device.peak_tflops,
        )
        or 0.0,
        bubble=timeline.bubble,
        parts_s=_parts(cluster, plan, stages, timeline, summed_s, optimizer_s),
    )


def _parts(
    cluster: Cluster,
    plan: StepPlan,
    stages: Sequence[_StageTime],
    timeline: Timeline,
    summed_s: float,
    optimizer_s: float,
) -> dict[str, float]:
    """The step of the busiest pipeline rank by what bounds it, in seconds."""
    rank = max(range(plan.pp), key=lambda each: timeline.busy_s[each])
    total = Cost()
    for at in _stages_of(plan.orders[rank]):
        total = total + (stages[at].forward + stages[at].backward).times(plan.num_mb)
    host_s = total.num_kernels * cluster.device.host_s if plan.is_blocking else 0.0
    return {
        "matmul": total.matmul_s,
        "attention": total.attention_s,
        "memory": total.memory_s,
        "tp": total.tp_s,
        "host": host_s,
        "dp": max(0.0, timeline.busy_s[rank] - total.seconds - host_s) + summed_s - timeline.seconds,
        "waiting": timeline.seconds - timeline.busy_s[rank],
        "optimizer": optimizer_s,
    }
