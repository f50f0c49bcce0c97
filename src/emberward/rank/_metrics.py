"""The metrics of one step, as they stand in ``metrics.jsonl``."""

from typing import Any

from emberward.layout import Model
from emberward.perf import mfu


def rates(
    model: Model, *, recompute: bool, global_batch: int, step_s: float, num_ranks: int, peak_tflops: float | None
) -> dict[str, Any]:
    """How fast a step was: samples and units of the loss (tokens; images) a second of all ranks, TFLOPs of each rank,
    MFU (None without a peak).

    A backward is twice a forward, and recomputation repeats the forward of the layers: `emberward.perf` [Note: flops].
    """
    forward, layers = (sum(block.flops for block in blocks) for blocks in (model.blocks, model.layers))
    needed, num_units = 3 * forward, model.sample.num_units
    done = needed + (layers if recompute else 0)
    samples_per_s = global_batch / step_s
    return {
        "samples_per_s": samples_per_s,
        "tokens_per_s": samples_per_s * num_units,
        "tflops": done * samples_per_s / (num_ranks * 1e12),
        "mfu": mfu(
            flops_per_token=needed / num_units,
            tokens_per_s=samples_per_s * num_units,
            num_ranks=num_ranks,
            peak_tflops=peak_tflops,
        ),
    }
