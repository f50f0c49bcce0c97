"""Floating-point operations of a transformer decoder, and rates made of them.

[Note: flops]
A multiply-add is two operations. Forward, for one token: each layer 8 h^2 (query, key, value, output), 4 h f (the two
matrices of the feed-forward layer; 6 h f when it is gated; with grouped queries 4 h^2 + 4 h times the keys' width
instead of 8 h^2), 4 s h (scores and their use, the causal half counted in
full); then 2 h V for the logits. Backward is twice forward. Recomputing activations repeats the layers' forward, not
the logits'.

With f = 4 h this is 24 B s l h^2 (1 + s / 6h) a pass for the layers, so that a step with recomputation is
96 B s l h^2 (1 + s / 6h + V / 16lh): Narayanan et al. 2021 (arXiv 2104.04473), equation 3, and the TFLOPs of
Megatron-DeepSpeed's log line (megatron/training.py). Without recomputation that line takes 3 / 4 of the whole, the
logits included, which counts them a quarter short; we count them whole: 72 B s l h^2 (1 + s / 6h + V / 12lh).
"""

_BACKWARD_PER_FORWARD = 2


def forward_flops_per_token(
    *,
    num_layers: int,
    hidden: int,
    seq_len: int,
    vocab_size: int,
    ffn_hidden: int | None = None,
    is_gated: bool = False,
    kv_width: int | None = None,
) -> tuple[int, int]:
    """Forward operations for one token, of all layers and of the logits. `ffn_hidden` None is 4 x hidden.

    `kv_width` is the width of the keys, and of the values; None: that of the queries. See [Note: flops].
    """
    width = 4 * hidden if ffn_hidden is None else ffn_hidden
    num_matrices = 3 if is_gated else 2
    keys = hidden if kv_width is None else kv_width
    projections = 4 * hidden**2 + 4 * hidden * keys
    layer = projections + 2 * num_matrices * hidden * width + 4 * seq_len * hidden
    return num_layers * layer, 2 * hidden * vocab_size


def model_flops_per_token(
    *,
    num_layers: int,
    hidden: int,
    seq_len: int,
    vocab_size: int,
    ffn_hidden: int | None = None,
    is_gated: bool = False,
    kv_width: int | None = None,
) -> int:
    """Operations that the model needs to train on one token, recomputation not counted. See [Note: flops]."""
    layers, logits = forward_flops_per_token(
        num_layers=num_layers,
        hidden=hidden,
        seq_len=seq_len,
        vocab_size=vocab_size,
        ffn_hidden=ffn_hidden,
        is_gated=is_gated,
        kv_width=kv_width,
    )
    return (1 + _BACKWARD_PER_FORWARD) * (layers + logits)


def hardware_tflops(
    *,
    num_layers: int,
    hidden: int,
    seq_len: int,
    vocab_size: int,
    global_batch: int,
    step_s: float,
    num_ranks: int,
    recompute: bool,
    ffn_hidden: int | None = None,
    is_gated: bool = False,
    kv_width: int | None = None,
) -> float:
    """Tera-operations a second that each rank really did, recomputation counted. See [Note: flops].

    BLOOM-176B's 105.22 s a step on 384 ranks give 149.02, the figure of its log.
    """
    layers, logits = forward_flops_per_token(
        num_layers=num_layers,
        hidden=hidden,
        seq_len=seq_len,
        vocab_size=vocab_size,
        ffn_hidden=ffn_hidden,
        is_gated=is_gated,
        kv_width=kv_width,
    )
    passes = 1 + _BACKWARD_PER_FORWARD
    per_token = (passes + (1 if recompute else 0)) * layers + passes * logits
    return per_token * global_batch * seq_len / (step_s * num_ranks * 1e12)


def mfu(*, flops_per_token: float, tokens_per_s: float, num_ranks: int, peak_tflops: float | None) -> float | None:
    """Model flops utilisation, in [0, 1]: what the model needed over what `num_ranks` devices could have done.

    None without a peak, as on a CPU. `flops_per_token` is `model_flops_per_token`'s, so that recomputation does not
    count as use (Chowdhery et al. 2022, PaLM, appendix B); `tokens_per_s` is that of all ranks together.
    """
    if peak_tflops is None:
        return None
    return flops_per_token * tokens_per_s / (num_ranks * peak_tflops * 1e12)


def mfu_text(value: float | None) -> str:
    """`value` in percent as people read it, or ``n/a``."""
    return "n/a" if value is None else f"{100 * value:.1f}%"
