"""Seconds of a decoder layer, of the embedding and of the head on one rank, operation by operation.

[Note: operations of a layer]
Matrix products: query-key-value, output, the two or three of the feed-forward; backward two for each. Attention is one
fused kernel, which does the causal half, of an encoder the whole (backward 2.5 times forward: Dao 2023), or products
with scores in memory and a softmax between (Megatron-LM until 2022). Streaming kernels, in passes over the residual
stream or a wider tensor: two norms 2 passes each, two additions 3 each (half a pass more with dropout's mask), the
activation 2 (gated 3) over the feed-forward's width, one copy of queries, keys and values. Backward moves 1.5 times
forward's bytes: each kernel reads its input and the gradient and writes one. The gradient of a bias reads that of its
layer's result.
tp: without sequence parallelism two all-reduces each way, with it two all-gathers and two reduce-scatters
(Korthikanti et al. 2022, section 4.2).
"""

from dataclasses import dataclass, field
from enum import StrEnum

from emberward.perf._attention import Attention, attention_share
from emberward.perf._decoder import Decoder
from emberward.perf._hardware import Device, Link, NumberFormat
from emberward.perf._kernels import Cost, all_reduce_s, gather_s, matmul_s, stream_s

_BACKWARD_BYTES = 1.5
_ATTENTION_BACKWARD = 2.5
_CAST_BYTES = 5.0
"""fp8: one pass that reads 2 bytes for the largest value, one that reads 2 and writes 1."""


_MOST_HIDDEN = 0.088
"""Share of a step that asynchronous tp saved where it was measured, the median of five pairs on H100: 5.4% (torchtitan
benchmarks/llama3_h100_202412), 8.4%, 8.8%, 9.0% and 14.1% (asyncTP_llama3_h100_2025-06, without float8 by row)."""


class Recompute(StrEnum):
    """What is computed again in the backward: nothing; whole layers; scores and softmax alone (Korthikanti et al.
    2022, section 5); all but every second matrix product and attention (torchtitan's ``selective``, ``op``)."""

    NONE = "none"
    LAYER = "layer"
    SCORES = "scores"
    EVERY_OTHER = "every_other"


class Stack(StrEnum):
    """How elementwise work runs: an operator a kernel (eager), or chains of them as one (a compiler, fused kernels)."""

    EAGER = "eager"
    FUSED = "fused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """How a framework computes a layer. `recompute_share` is the share of layers that compute again."""

    fmt: NumberFormat = NumberFormat.BF16
    attention: Attention = Attention.FLASH_2
    stack: Stack = Stack.FUSED
    recompute: Recompute = Recompute.NONE
    recompute_share: float = 1.0
    has_dropout: bool = False
    sequence_parallel: bool = True
    tp_overlap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTime:
    """Costs of one micro-batch: forward, what is computed again, backward without it.

    `weights` is the part of the backward that gives the gradients of the linear layers' weights and may come later.
    """

    forward: Cost
    again: Cost
    backward: Cost
    weights: Cost = field(default_factory=Cost)

    def times(self, factor: float) -> "LayerTime":
        """The costs of `factor` such layers."""
        return LayerTime(
            forward=self.forward.times(factor),
            again=self.again.times(factor),
            backward=self.backward.times(factor),
            weights=self.weights.times(factor),
        )


def _product(device: Device, m: int, n: int, k: int, fmt: NumberFormat) -> Cost:
    cast_s = stream_s(device, _CAST_BYTES * m * k) if fmt is NumberFormat.FP8 else 0.0
    kernels = 3 if fmt is NumberFormat.FP8 else 1
    return Cost(matmul_s=matmul_s(device, m, n, k, fmt=fmt), memory_s=cast_s, num_kernels=kernels)


def _products(device: Device, tokens: int, n: int, k: int, fmt: NumberFormat) -> tuple[Cost, Cost, Cost]:
    """The products of one linear layer: y = x W, then dx and dW."""
    return (
        _product(device, tokens, n, k, fmt),
        _product(device, tokens, k, n, fmt),
        _product(device, n, k, tokens, fmt),
    )


def _attention(device: Device, decoder: Decoder, micro_batch: int, tp: int, how: Numerics) -> tuple[Cost, Cost]:
    s, d, heads = decoder.seq_len, decoder.head_size, decoder.num_heads // tp
    if how.attention is not Attention.SCORES_IN_MEMORY:
        return _fused_attention(device, micro_batch=micro_batch, heads=heads, decoder=decoder, kind=how.attention)
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


def _fused_attention(
    device: Device, *, micro_batch: int, heads: int, decoder: Decoder, kind: Attention
) -> tuple[Cost, Cost]:
    s, d = decoder.seq_len, decoder.head_size
    is_dense = kind is Attention.DENSE_MASK
    flops = 4.0 * micro_batch * s * s * heads * d / (1 if is_dense or not decoder.is_causal else 2)
    mask_s = stream_s(device, 2.0 * micro_batch * heads * s * s) if is_dense else 0.0
    peak = device.peak_tflops * 1e12 * device.clock_share
    rates = [
        peak * attention_share(device, kind, head_size=d, seq_len=s, is_backward=is_backward)
        for is_backward in (False, True)
    ]
    forward = Cost(attention_s=flops / rates[0], memory_s=mask_s, num_kernels=1)
    return forward, Cost(attention_s=_ATTENTION_BACKWARD * flops / rates[1], memory_s=mask_s, num_kernels=2)


def _streaming_bytes(decoder: Decoder, tokens: int, rows: float, tp: int, how: Numerics) -> float:
    """Bytes of a layer's elementwise forward; `rows` is a pass over the residual stream.

    Eager, from the operators' reads and writes: an RMS norm casts to float32, squares, averages, scales, casts and
    weighs (30 bytes an element instead of 4), rotary embeddings cast, multiply and cast back (24 bytes instead of 4),
    SiLU and its product are two kernels (5 passes instead of 3). A layer norm and GELU are one kernel each.
    """
    qkv = decoder.hidden + 2 * decoder.kv_width
    mask = 0.5 if how.has_dropout else 0.0
    wide = 2.0 * tokens * decoder.ffn_hidden / tp
    split = 2.0 * tokens * qkv / tp
    is_eager = how.stack is Stack.EAGER
    if decoder.is_gated and is_eager:
        return (30 + 2 * (3 + mask)) * rows + 5 * wide + 12 * split
    return (4 + 2 * (3 + mask)) * rows + (3 if decoder.is_gated else 2) * wide + 2 * split


def _tp_cost(link: Link, stream_bytes: float, tp: int, how: Numerics) -> Cost:
    """One direction of a layer, nothing hidden."""
    if tp == 1:
        return Cost()
    if how.sequence_parallel:
        seconds = 4 * gather_s(link, stream_bytes, tp)
    else:
        seconds = 2 * all_reduce_s(link, stream_bytes, tp)
    return Cost(tp_s=seconds, num_kernels=4)


def _hidden(cost: Cost, tp: int, how: Numerics) -> Cost:
    """`cost` with what overlap hides: all but the first of tp pieces (Wang et al. 2022), at most _MOST_HIDDEN of it."""
    if not how.tp_overlap:
        return cost
    hidden_s = min(cost.tp_s * (tp - 1) / tp, _MOST_HIDDEN * cost.seconds)
    return cost + Cost(tp_s=-hidden_s)


def layer_time(
    device: Device, inside: Link, decoder: Decoder, *, micro_batch: int, tp: int, how: Numerics
) -> LayerTime:
    """Costs of one layer on one of `tp` ranks. See [Note: operations of a layer]."""
    tokens, h, f = micro_batch * decoder.seq_len, decoder.hidden, decoder.ffn_hidden
    qkv = h + 2 * decoder.kv_width
    shapes = [(qkv // tp, h), (h, h // tp), *([(f // tp, h)] * (2 if decoder.is_gated else 1)), (h, f // tp)]
    products = [_products(device, tokens, n, k, how.fmt) for n, k in shapes]
    linear_forward, linear_input, linear_weights = (sum(each, Cost()) for each in zip(*products, strict=True))
    linear_backward = linear_input + linear_weights
    stream_bytes = 2.0 * tokens * h
    rows = stream_bytes / (tp if how.sequence_parallel else 1)
    streaming = Cost(memory_s=stream_s(device, _streaming_bytes(decoder, tokens, rows, tp, how)), num_kernels=8)
    scores_forward, scores_backward = _attention(device, decoder, micro_batch, tp, how)
    tp_cost = _tp_cost(inside, stream_bytes, tp, how)
    forward = _hidden(linear_forward + streaming + scores_forward + tp_cost, tp, how)
    backward = _hidden(linear_backward + streaming.times(_BACKWARD_BYTES) + scores_backward + tp_cost, tp, how)
    if decoder.has_bias:
        widths = sum(n for n, _ in shapes)
        backward += Cost(memory_s=stream_s(device, 2.0 * tokens * widths), num_kernels=len(shapes))
    again = {
        Recompute.NONE: Cost(),
        Recompute.LAYER: forward,
        Recompute.SCORES: scores_forward,
        Recompute.EVERY_OTHER: linear_forward.times(0.5) + streaming + tp_cost.times(0.5),
    }[how.recompute].times(how.recompute_share)
    return LayerTime(forward=forward, again=again, backward=backward, weights=linear_weights)


def first_time(
    device: Device, inside: Link, decoder: Decoder, *, micro_batch: int, tp: int, how: Numerics
) -> LayerTime:
    """Costs of the embedding: look-up and, over tp, one collective each way. Backward adds rows to the gradient."""
    stream_bytes = 2.0 * micro_batch * decoder.seq_len * decoder.hidden
    tp_cost = _tp_cost(inside, stream_bytes, tp, how).times(0.5)
    each = Cost(memory_s=stream_s(device, 4 * stream_bytes), num_kernels=4) + tp_cost
    return LayerTime(forward=each, again=Cost(), backward=each)


def last_time(device: Device, inside: Link, decoder: Decoder, *, micro_batch: int, tp: int, how: Numerics) -> LayerTime:
    """Costs of the head and the loss. The loss works in float32: 20 bytes a logit, backward 12."""
    tokens, width = micro_batch * decoder.seq_len, decoder.vocab_size // tp
    forward, to_input, to_weights = _products(device, tokens, width, decoder.hidden, NumberFormat.BF16)
    backward = to_input + to_weights
    if decoder.has_transform:
        again, *others = _products(device, tokens, decoder.hidden, decoder.hidden, NumberFormat.BF16)
        forward, backward = forward + again, backward + others[0] + others[1]
    stream_bytes = 2.0 * tokens * decoder.hidden
    tp_cost = _tp_cost(inside, stream_bytes, tp, how).times(0.5)
    logits = float(tokens) * width
    loss = Cost(memory_s=stream_s(device, 20 * logits), num_kernels=10)
    loss_backward = Cost(memory_s=stream_s(device, 12 * logits), num_kernels=5)
    return LayerTime(forward=forward + loss + tp_cost, again=Cost(), backward=backward + loss_backward + tp_cost)
