"""Seconds of a decoder layer, of the embedding and of the head on one rank, operation by operation.

[Note: operations of a layer]
Matrix products: query-key-value, output, the two or three of the feed-forward; backward two for each. Attention is one
fused kernel, which does the causal half (backward 2.5 times forward: Dao 2023), or products with scores in memory
and a softmax between (Megatron-LM until 2022). Streaming kernels, in passes over the residual stream or a wider
tensor: two norms 2 passes each, two additions 3 each (half a pass more with dropout's mask), the activation 2 (gated 3)
over the feed-forward's width, one copy of queries, keys and values. Backward moves 1.5 times forward's bytes: each
kernel reads its input and the gradient and writes one. The gradient of a bias reads that of its layer's result.
tp: without sequence parallelism two all-reduces each way, with it two all-gathers and two reduce-scatters
(Korthikanti et al. 2022, section 4.2).
"""

from dataclasses import dataclass
from enum import StrEnum

from emberward.layout import Decoder
from emberward.perf._hardware import Device, Link, NumberFormat
from emberward.perf._kernels import Cost, all_reduce_s, attention_s, gather_s, matmul_s, stream_s

_BACKWARD_BYTES = 1.5
_ATTENTION_BACKWARD = 2.5
_CAST_BYTES = 5.0
"""fp8: one pass that reads 2 bytes for the largest value, one that reads 2 and writes 1."""


class Recompute(StrEnum):
    """What is computed again in the backward: nothing; whole layers; scores and softmax alone (Korthikanti et al.
    2022, section 5); all but every second matrix product and attention (torchtitan's ``selective``, ``op``)."""

    NONE = "none"
    LAYER = "layer"
    SCORES = "scores"
    EVERY_OTHER = "every_other"


class Attention(StrEnum):
    """Whether scores stay inside one kernel or go through memory."""

    FUSED = "fused"
    SCORES_IN_MEMORY = "scores_in_memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """How a framework computes a layer."""

    fmt: NumberFormat = NumberFormat.BF16
    attention: Attention = Attention.FUSED
    recompute: Recompute = Recompute.NONE
    has_dropout: bool = False
    sequence_parallel: bool = True
    tp_overlap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTime:
    """Costs of one micro-batch: forward, what is computed again, backward without it."""

    forward: Cost
    again: Cost
    backward: Cost

    def times(self, factor: float) -> "LayerTime":
        """The costs of `factor` such layers."""
        return LayerTime(
            forward=self.forward.times(factor), again=self.again.times(factor), backward=self.backward.times(factor)
        )


def _product(device: Device, m: int, n: int, k: int, fmt: NumberFormat) -> Cost:
    cast_s = stream_s(device, _CAST_BYTES * m * k) if fmt is NumberFormat.FP8 else 0.0
    kernels = 3 if fmt is NumberFormat.FP8 else 1
    return Cost(matmul_s=matmul_s(device, m, n, k, fmt=fmt), memory_s=cast_s, num_kernels=kernels)


def _products(device: Device, tokens: int, n: int, k: int, fmt: NumberFormat) -> tuple[Cost, Cost]:
    """Forward and backward of one linear layer: y = x W, then dx and dW."""
    forward = _product(device, tokens, n, k, fmt)
    backward = _product(device, tokens, k, n, fmt) + _product(device, n, k, tokens, fmt)
    return forward, backward


def _attention(device: Device, decoder: Decoder, micro_batch: int, tp: int, how: Numerics) -> tuple[Cost, Cost]:
    s, d, heads = decoder.seq_len, decoder.head_size, decoder.num_heads // tp
    if how.attention is Attention.FUSED:
        flops = 4.0 * micro_batch * s * s * heads * d / 2
        forward = Cost(attention_s=attention_s(device, flops, is_backward=False), num_kernels=1)
        again = attention_s(device, _ATTENTION_BACKWARD * flops, is_backward=True)
        return forward, Cost(attention_s=again, num_kernels=2)
    batch = micro_batch * heads
    scores_bytes = 2.0 * batch * s * s
    dropped = 2.5 if how.has_dropout else 0.0
    score, use = matmul_s(device, s, s, d, batch=batch), matmul_s(device, s, d, s, batch=batch)
    forward = Cost(
        attention_s=score + use,
        memory_s=stream_s(device, (2.0 + dropped) * scores_bytes),
        num_kernels=4,
    )
    backward = Cost(
        attention_s=2 * (score + use),
        memory_s=stream_s(device, (3.0 + dropped) * scores_bytes),
        num_kernels=7,
    )
    return forward, backward


def _tp_cost(link: Link, stream_bytes: float, tp: int, how: Numerics) -> Cost:
    """One direction of a layer. What async tp hides is all but the first of tp pieces (Wang et al. 2022)."""
    if tp == 1:
        return Cost()
    if how.sequence_parallel:
        seconds = 4 * gather_s(link, stream_bytes, tp)
    else:
        seconds = 2 * all_reduce_s(link, stream_bytes, tp)
    return Cost(tp_s=seconds / tp if how.tp_overlap else seconds, num_kernels=4)


def layer_time(
    device: Device, inside: Link, decoder: Decoder, *, micro_batch: int, tp: int, how: Numerics
) -> LayerTime:
    """Costs of one layer on one of `tp` ranks. See [Note: operations of a layer]."""
    tokens, h, f = micro_batch * decoder.seq_len, decoder.hidden, decoder.ffn_hidden
    qkv = h + 2 * decoder.kv_width
    shapes = [(qkv // tp, h), (h, h // tp), *([(f // tp, h)] * (2 if decoder.is_gated else 1)), (h, f // tp)]
    products = [_products(device, tokens, n, k, how.fmt) for n, k in shapes]
    linear_forward = sum((forward for forward, _ in products), Cost())
    linear_backward = sum((backward for _, backward in products), Cost())
    stream_bytes = 2.0 * tokens * h
    rows = stream_bytes / (tp if how.sequence_parallel else 1)
    mask = 0.5 if how.has_dropout else 0.0
    passes = (4 + 2 * (3 + mask)) * rows
    passes += (3 if decoder.is_gated else 2) * 2.0 * tokens * f / tp + 2 * 2.0 * tokens * qkv / tp
    streaming = Cost(memory_s=stream_s(device, passes), num_kernels=8)
    scores_forward, scores_backward = _attention(device, decoder, micro_batch, tp, how)
    tp_cost = _tp_cost(inside, stream_bytes, tp, how)
    forward = linear_forward + streaming + scores_forward + tp_cost
    backward = linear_backward + streaming.times(_BACKWARD_BYTES) + scores_backward + tp_cost
    if decoder.has_bias:
        widths = sum(n for n, _ in shapes)
        backward += Cost(memory_s=stream_s(device, 2.0 * tokens * widths), num_kernels=len(shapes))
    again = {
        Recompute.NONE: Cost(),
        Recompute.LAYER: forward,
        Recompute.SCORES: scores_forward,
        Recompute.EVERY_OTHER: linear_forward.times(0.5) + streaming + tp_cost.times(0.5),
    }[how.recompute]
    return LayerTime(forward=forward, again=again, backward=backward)


def first_time(
    device: Device, inside: Link, decoder: Decoder, *, micro_batch: int, tp: int, how: Numerics
) -> LayerTime:
    """Costs of the embedding: look-up and, over tp, one collective each way. Backward adds rows to the gradient."""
    stream_bytes = 2.0 * micro_batch * decoder.seq_len * decoder.hidden
    tp_cost = _tp_cost(inside, stream_bytes, tp, how).times(0.5)
    each = Cost(memory_s=stream_s(device, 4 * stream_bytes), num_kernels=4) + tp_cost
    return LayerTime(forward=each, again=Cost(), backward=each)


def last_time(device: Device, inside: Link, decoder: Decoder, *, micro_batch: int, tp: int, how: Numerics) -> LayerTime:
    """Costs of the final norm, the head and the loss. The loss works in float32: 20 bytes a logit, backward 12."""
    tokens, width = micro_batch * decoder.seq_len, decoder.vocab_size // tp
    forward, backward = _products(device, tokens, width, decoder.hidden, NumberFormat.BF16)
    stream_bytes = 2.0 * tokens * decoder.hidden
    tp_cost = _tp_cost(inside, stream_bytes, tp, how).times(0.5)
    logits = float(tokens) * width
    loss = Cost(memory_s=stream_s(device, 20 * logits), num_kernels=10)
    loss_backward = Cost(memory_s=stream_s(device, 12 * logits), num_kernels=5)
    return LayerTime(forward=forward + loss + tp_cost, again=Cost(), backward=backward + loss_backward + tp_cost)
