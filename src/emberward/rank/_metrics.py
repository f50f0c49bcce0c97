"""The metrics of one step, as they stand in ``metrics.jsonl``."""

from typing import Any

from emberward.layout import Model
from emberward.perf import hardware_tflops, mfu


def rates(
    model: Model, *, recompute: bool, global_batch: int, step_s: float, num_ranks: int, peak_tflops: float | None
) -> dict[str, Any]:
    """How fast a step was: samples and units of the loss (tokens; images) a second of all ranks, TFLOPs of each rank,
    MFU (None without a peak). What is counted: `emberward.perf` [Note: flops]."""
    samples_per_s = global_batch / step_s
    return {
        "samples_per_s": samples_per_s,
        "tokens_per_s": samples_per_s * model.sample.num_units,
        "tflops": hardware_tflops(
            model, recompute=recompute, global_batch=global_batch, step_s=step_s, num_ranks=num_ranks
        ),
        "mfu": mfu(model, samples_per_s=samples_per_s, num_ranks=num_ranks, peak_tflops=peak_tflops),
    }
