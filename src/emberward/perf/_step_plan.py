"""How a step is run: what a prediction needs beside the model and the cluster."""

from dataclasses import dataclass

from emberward.perf._block_time import Numerics
from emberward.perf._pipeline_time import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """How a step is run. `orders` is the schedule, one tuple a pipeline rank; `stage_layers` the layers of each stage.

    `shards_parameters`: gathered for each micro-batch and pass (ZeRO-3) instead of once a step. `accumulate_bytes`:
    bytes moved a parameter and micro-batch to add its gradient, 10 where a 16-bit gradient is added to a float32 one, 8
    where the product itself adds, 6 where both are 16 bits wide. `reduce_bytes` and `gather_bytes`: widths of gradients
    and parameters on the wire; twice the width stands for an all-reduce. `keeps_gathered`: parameters gathered for a
    forward stay for its backward (SHARD_GRAD_OP). `has_root_unit`: embedding and head are gathered and reduced as one,
    before and after all layers (torch's FSDP where no more than the layers are wrapped). `scatters_each`: gradients are
    reduce-scattered after each micro-batch (ZeRO-2). `cast_bytes`: bytes moved a parameter and micro-batch by casts of
    float32 weights for the products and of their gradients back (12 under torch's autocast). `optimizer_bytes`: bytes
    moved a parameter by the update; None: those of an AdamW that is fused as the stack is. `shard_ranks`: parameters
    are sharded over so many ranks and the gradients' shards summed over the others (HSDP; 1: plain data parallelism);
    None: over all of dp. `keeps_gradients`: gradients have buffers that are zeroed before a step, so that the first
    micro-batch adds too (megatron/core/distributed/param_and_grad_buffer.py, ``reset``). `bucket_bytes`: bytes moved a
    parameter and step by copies of gradients into the buckets of plain data parallelism and back (torch's DDP without
    ``gradient_as_bucket_view``: four widths). `gathered_shares`: of each stage's parameters the share that a pass
    gathers, the others being there still; None: all. `is_blocking`: each kernel is waited for and transfers between
    stages run alone (CUDA_LAUNCH_BLOCKING=1); without it both overlap. `starts_together`: the ranks of an interleaved
    pipeline start the gathers and reductions of a stage at the same time, so that what these take from computing is not
    added up along a micro-batch's way through the stages (megatron/core/pipeline_parallel/schedules.py, "launch grad
    synchronization").
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
    keeps_gathered: bool = False
    has_root_unit: bool = False
    scatters_each: bool = False
    cast_bytes: float = 0.0
    optimizer_bytes: float | None = None
    shard_ranks: int | None = None
    keeps_gradients: bool = False
    bucket_bytes: float = 0.0
    starts_together: bool = False
    gathered_shares: tuple[float, ...] | None = None
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
