"""Seconds of a stage's communication over dp, and what computing beside it loses.

[Note: sharded parameters]
FSDP gathers a layer's parameters while the layer before it computes, and reduces its gradients while the next one does
(torch/distributed/fsdp/_fully_shard): a pass exposes the gather of its first layer, a backward also the last
reduce-scatter. What no layer holds is exposed too: the embedding is needed before any layer, and its gradient is the
last one (pytorch/torchtitan pull request 182: "both exposed since the embedding has the last gradient computation").
Where no more than layers are wrapped, torch's FSDP has the head in one unit with it, that of the model as a whole,
which stays gathered from a forward to its backward (pytorch/pytorch pull request 117323; _fully_shard.py,
``reshard_after_forward``). Trainers that wrap embedding and head each for itself are not told apart. These are gathered
in 16 bits where layers are in fp8.

Gathered parameters are copied out (2 + 2 bytes each, forward and backward) and gradients copied in (2 read, 4 written
for a float32 reduction), at the rate that was measured for this copy: compute waits for both.

A collective holds some of the processors while it runs and moves what it sends through the device's memory at least
twice (stored, then read: NCCL's maintainers in NVIDIA/nccl issue 1428), so that what computes beside it is slower. Each
stage is priced once alone and once with fewer processors, products by their waves of tiles, all else by the share that
is left; and all has what is left of the memory's rate, but for products on Hopper, whose factor of two was measured
beside a collective. On an A100 kernels beside an all-gather in a node took 1.76 times as long (a product: 2.08 ms
instead of 1.18), 1.83 (attention: 0.33, 0.18) and 2.5 (elementwise: 0.05, 0.02; the same issue); priced is 1.67.
"""

import math
from dataclasses import dataclass

from emberward.layout import Model
from emberward.perf._hardware import Cluster, Device, Generation, Link
from emberward.perf._kernels import NCCL_BLOCKS, Cost, all_reduce_s, gather_s, stream_s
from emberward.perf._rings import network_link, ring_link
from emberward.perf._step_plan import StepPlan

_COPY_IN_SHARES = (4 * 500e9 / 3.35e12, 6 * 278e9 / 3.35e12)
"""Share of the memory's bandwidth that the copy of 16-bit gradients into the buffer of their reduction reaches, by
whether this is wider than 16 bits: 500 and 278 billion numbers a second on an H100 (pytorch/pytorch pull request
120678, ``_chunk_cat``). Taken for all devices and frameworks (assumed)."""

_MEMORY_TRIPS = 2.0
"""How often the device's memory moves what a collective sends, at least. See [Note: sharded parameters]."""


def sharders(plan: StepPlan) -> int:
    """Ranks over which a parameter is sharded."""
    return plan.dp if plan.shard_ranks is None else plan.shard_ranks


def dp_link(cluster: Cluster, plan: StepPlan, num_ranks: int) -> Link:
    """The link of a ring of `num_ranks` of a dp group, neighbours first."""
    return ring_link(cluster, num_ranks, cluster.devices_per_node // plan.tp)


def outer_numel(model: Model, plan: StepPlan, layers: range) -> float:
    """Parameters of a stage that are gathered before its first layer's and reduced after. See [Note: sharded
    parameters]."""
    if not plan.shards_parameters:
        return 0.0
    numbers = model.stage_blocks(layers)
    held = sum(math.prod(tensor.local_shape(plan.tp, 0)) for tensor in model.tensors_of(numbers))
    outer = {0} if not plan.has_root_unit else {0, len(model.blocks) - 1}
    inner = range(numbers.start + (numbers.start in outer), numbers.stop - (numbers.stop - 1 in outer))
    return held - sum(math.prod(tensor.local_shape(plan.tp, 0)) for tensor in model.tensors_of(inner))


def lost_share(alone: Cost, beside: Cost, cluster: Cluster, link: Link) -> float:
    """The share of the time of a collective over `link` by which work beside it grows, in [0, 1)."""
    device = cluster.device
    # No cluster has a link so fast that nothing is left.
    left = max(1e-6, 1.0 - _MEMORY_TRIPS * link.bytes_per_s / device.memory_bytes_per_s)
    product_s = beside.matmul_s if device.generation is Generation.HOPPER else beside.matmul_s / left
    left *= 1.0 - NCCL_BLOCKS / device.num_sms
    return 1.0 - alone.seconds / (product_s + (alone.seconds - alone.matmul_s) / left)


@dataclass(frozen=True, slots=True, kw_only=True)
class DpTime:
    """Seconds of a stage's dp communication: one gather of its parameters, one reduce-scatter of its gradients.

    `copy_out_s` and `copy_in_s` are the copies beside them, `pieces` the collectives into which each is cut. What is
    gathered first and reduced last is in `outer_gather_s` and `outer_scatter_s` instead.
    """

    gather_s: float
    scatter_s: float
    outer_gather_s: float
    outer_scatter_s: float
    copy_out_s: float
    copy_in_s: float
    pieces: int


def dp_time(cluster: Cluster, plan: StepPlan, *, numel: float, outer_numel: float, layers: int) -> DpTime:
    """Of a stage of `layers` layers with `numel` parameters, of which `outer_numel` are none of theirs. See
    [Note: sharded parameters]."""
    ranks = sharders(plan)
    link = dp_link(cluster, plan, ranks)
    others = plan.dp // ranks
    across = dp_link(cluster, plan, others) if ranks == 1 else network_link(cluster, 1)

    def scatter_s(numel: float) -> float:
        summed_s = all_reduce_s(across, plan.reduce_bytes * numel / ranks, others) if others > 1 else 0.0
        return gather_s(link, plan.reduce_bytes * numel, ranks) + summed_s

    pieces = layers if plan.shards_parameters or plan.scatters_each else 1
    piece = (numel - outer_numel) / pieces
    return DpTime(
        gather_s=pieces * gather_s(link, plan.gather_bytes * piece, ranks),
        scatter_s=pieces * scatter_s(piece),
        outer_gather_s=gather_s(link, max(2.0, plan.gather_bytes) * outer_numel, ranks),
        outer_scatter_s=scatter_s(outer_numel),
        copy_out_s=stream_s(cluster.device, 2 * plan.gather_bytes * numel),
        copy_in_s=_copied_in_s(cluster.device, plan.reduce_bytes, numel) if ranks > 1 else 0.0,
        pieces=pieces,
    )


def _copied_in_s(device: Device, width: float, numel: float) -> float:
    """Seconds in which 16-bit gradients are laid out for a reduction of `width` bytes a number."""
    return (2.0 + width) * numel / (_COPY_IN_SHARES[width > 2.0] * device.memory_bytes_per_s)
