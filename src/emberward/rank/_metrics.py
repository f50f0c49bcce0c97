"""The metrics of one step, as they stand in ``metrics.jsonl``."""

from typing import Any

from emberward.perf import hardware_tflops, mfu, model_flops_per_token
from emberward.recipe import Recipe


def rates(
    recipe: Recipe, *, global_batch: int, step_s: float, num_ranks: int, peak_tflops: float | None
) -> dict[str, Any]:
    """How fast a step was: samples and tokens a second of all ranks, TFLOPs of each rank, MFU (None without a peak).

    See `emberward.perf` [Note: flops].
    """
    model = recipe.model
    assert model.vocab_size is not None, "the recipe is not resolved"
    sizes: dict[str, Any] = {
        "num_layers": model.num_layers,
        "hidden": model.hidden,
        "seq_len": model.seq_len,
        "vocab_size": model.vocab_size,
        "ffn_hidden": model.ffn_hidden,
    }
    tokens_per_s = global_batch * model.seq_len / step_s
    return {
        "samples_per_s": global_batch / step_s,
        "tokens_per_s": tokens_per_s,
        "tflops": hardware_tflops(
            **sizes, global_batch=global_batch, step_s=step_s, num_ranks=num_ranks, recompute=model.recompute
        ),
        "mfu": mfu(
            flops_per_token=model_flops_per_token(**sizes),
            tokens_per_s=tokens_per_s,
            num_ranks=num_ranks,
            peak_tflops=peak_tflops,
        ),
    }
