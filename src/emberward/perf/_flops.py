"""Floating-point operations of a model, read off its blocks, and rates made of them.

[Note: flops]
A multiply-add is two operations. A block's forward is its products and its scores (`layout.Product`,
`layout.AttentionScores`, the causal half counted in full); elementwise work is not counted. Backward is twice forward.
Recomputing activations repeats the forward of the layers, not that of the ends.

For a transformer layer of width h with a feed-forward layer of 4 h this is 24 B s h^2 (1 + s / 6h), so that a step with
recomputation is 96 B s l h^2 (1 + s / 6h + V / 16lh): Narayanan et al. 2021 (arXiv 2104.04473), equation 3, and the
TFLOPs of Megatron-DeepSpeed's log line (megatron/training.py). Without recomputation that line takes 3 / 4 of the
whole, the logits included, which counts them a quarter short; we count them whole:
72 B s l h^2 (1 + s / 6h + V / 12lh).
"""

from emberward.layout import Model

_PASSES = 3
"""A forward, and a backward that is two of it."""


def forward_flops(model: Model) -> tuple[int, int]:
    """Forward operations of a sample: of all layers, and of the first and the last block."""
    return sum(block.flops for block in model.layers), model.first.flops + model.last.flops


def model_flops(model: Model) -> int:
    """Operations that the model needs to train on one sample, recomputation not counted. See [Note: flops]."""
    return _PASSES * sum(forward_flops(model))


def hardware_tflops(model: Model, *, recompute: bool, global_batch: int, step_s: float, num_ranks: int) -> float:
    """Tera-operations a second that each rank really did, recomputation counted. See [Note: flops].

    BLOOM-176B's 105.22 s a step on 384 ranks give 149.02, the figure of its log.
    """
    layers, _ = forward_flops(model)
    done = model_flops(model) + (layers if recompute else 0)
    return done * global_batch / (step_s * num_ranks * 1e12)


def mfu(model: Model, *, samples_per_s: float, num_ranks: int, peak_tflops: float | None) -> float | None:
    """Model flops utilisation, in [0, 1]: what the model needed over what `num_ranks` devices could have done.

    None without a peak, as on a CPU. Recomputation does not count as use (Chowdhery et al. 2022, PaLM, appendix B);
    `samples_per_s` is that of all ranks together.
    """
    if peak_tflops is None:
        return None
    return model_flops(model) * samples_per_s / (num_ranks * peak_tflops * 1e12)


def mfu_text(value: float | None) -> str:
    """`value` in percent as people read it, or ``n/a``."""
    return "n/a" if value is None else f"{100 * value:.1f}%"
