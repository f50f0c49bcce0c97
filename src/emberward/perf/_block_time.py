"""Seconds of a block of a model on one rank, operation by operation, as the model declares them.

[Note: operations of a block]
Matrix products: backward two for each. Attention is one fused kernel, which does the causal half where it is causal
(backward 2.5 times forward: Dao 2023), or products with scores in memory and a softmax between (Megatron-LM until
2022). Code that writes attention out scales the scores, sets the causal half by ``where`` and adds a mask, six passes
forward; backward the scale's two and the two of ``where`` (transformers, modeling_gpt2.py of 2021, `_attn`). Autocast
has softmax and dropout in float32 (torch's list of operators that it promotes): its passes are twice as wide, with a
cast of three passes before and after, backward too; so is what follows the power in a GELU that is written out.
Elementwise work moves bytes, in passes over a tensor that its declaration counts, as chains of operators that run as
one (fused) or one by one (eager). Dropout writes a mask of one byte beside each addition, which is three passes: two
reads and a write. Backward moves 1.5 times forward's bytes: each kernel reads its input and the gradient and writes
one, where its declaration says nothing else. The gradient of a bias reads that of its layer's result. The loss works in
float32: of a library's kernels 20 bytes a number that the last block gives, backward 12; eager 24 and 27, the casts to
and from 16 bits (6 each) and cross entropy as measured on A100 (FlagPerf, operation/benchmarks/cross_entropy_loss,
bf16: 845 us forward, 1831 us both, of 1024 x 128,000 numbers at 1,555 GB/s; twice that in float32). A compiler casts
within its kernels: 4 bytes for the greatest number and the sum of a row, 2 to read and 2 to write backward, as
TorchInductor's kernels of ``cross_entropy`` do.
tp: the collectives of the block's changes of layout; with split positions a gather or a reduce-scatter each way, else
an all-reduce one way (Korthikanti et al. 2022, section 4.2). Products in fp8 gather what was cast, a byte a number
(Transformer Engine, pytorch/module/base.py, ``grad_output_preprocess``, and layernorm_linear.py; torchao
float8/float8_tensor_parallel.py); sums have 16 bits.

[Note: user buffers]
Transformer Engine (pytorch/module/base.py, ``initialize_ub``, ``methods``) gathers for a product by a ring of copies,
each beside the product of the part that came before (qkv_fprop, fc1_fprop, proj_dgrad, fc2_dgrad): no more is exposed
than outlasts the product. A product whose result is summed forward (proj_fprop, fc2_fprop) runs in four pieces, of
which the last one's sum is exposed; the others hold 16 processors. The backward's sums run beside the weights' products
(``bulk``), as without user buffers.
"""

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum

from emberward.layout import AttentionScores, Block, Direction, Elementwise, Over, Product
from emberward.perf._attention import Attention, attention_share
from emberward.perf._hardware import Device, Generation, Link, NumberFormat
from emberward.perf._kernels import NCCL_BLOCKS, Cost, all_reduce_s, gather_s, matmul_s, stream_cost, stream_s

_ADDITION_PASSES = 3
_PASSES_A_KERNEL = 2.5
"""Passes of an elementwise kernel, between those of one and of two operands (assumed)."""
_NORM_SHARE = 0.5
"""Rate of a fused norm over that of a streaming kernel: torch.compile's RMSNorm on H100 reached half of kernels that
stream at 0.9 of the memory's rate (pytorch.org, "SOTA Normalization Performance with torch.compile", of the benchmarks
of Dao-AILab/quack). Taken for all fused norms (assumed)."""
_DROPOUT_PASSES = (2.84, 3.58)
"""Of dropout over the scores, forward and backward, in passes of a streaming kernel: 4503 and 5683 us for 1 Gi numbers
on A100 40GB in bf16 (FlagPerf, operation/benchmarks/dropout and native_dropout). It reads, writes and marks 5 bytes a
number each way, which is 2.5."""
_ATTENTION_BACKWARD = 2.5


_MOST_HIDDEN = 0.088
"""Share of a step that asynchronous tp saved where it was measured, the median of five pairs on H100: 5.4% (torchtitan
benchmarks/llama3_h100_202412), 8.4%, 8.8%, 9.0% and 14.1% (asyncTP_llama3_h100_2025-06, without float8 by row)."""

_PIECES, _PIECE_BLOCKS = 4, 16
"""Pieces of a product whose results are summed one by one, and the processors that a sum takes: ``num_splits`` and
``num_sm`` of ``add_ub``. See [Note: user buffers]."""


class Recompute(StrEnum):
    """What is computed again in the backward: nothing; whole layers; scores and softmax alone (Korthikanti et al.
    2022, section 5); all but every second matrix product and attention (torchtitan's ``selective``, ``op``)."""

    NONE = "none"
    LAYER = "layer"
    SCORES = "scores"
    EVERY_OTHER = "every_other"


class Stack(StrEnum):
    """How elementwise work runs: an operator a kernel, of code that writes functions out as arithmetic (written out) or
    calls the framework's own (eager); or chains of them as one kernel, a library's (fused), of which Megatron-LM's loss
    is operators (megatron), or TorchInductor's (compiled)."""

    WRITTEN_OUT = "written_out"
    EAGER = "eager"
    FUSED = "fused"
    MEGATRON = "megatron"
    COMPILED = "compiled"


class Casts(StrEnum):
    """Who casts the operands of products to fp8: a kernel that casts, transposes and keeps the largest value for the
    next step's scale (Transformer Engine), the same after one that seeks the largest value for this step's (its current
    scaling), one that casts by blocks along both dims (MXFP8), kernels of a compiler, or an operator a kernel."""

    KERNEL = "kernel"
    CURRENT = "current"
    BLOCKS = "blocks"
    COMPILED = "compiled"
    EAGER = "eager"


_LOSS_BYTES = {Stack.FUSED: (20, 12), Stack.MEGATRON: (38, 14), Stack.COMPILED: (4, 4)}
"""Bytes that the loss moves a number that the last block gives, forward and backward. Eager and written out: 24, 27.
Megatron-LM's, unless ``--cross-entropy-loss-fusion`` is given (megatron/core/tensor_parallel/cross_entropy.py): to
float32 6, the greatest 4, less it 8, its power 8, the sum 4, over the sum 8; backward times the gradient 8, to 16 bits
6."""

_CASTS = {
    Casts.KERNEL: (4, 1),
    Casts.CURRENT: (6, 2),
    Casts.BLOCKS: (4, 1),
    Casts.COMPILED: (7, 3),
    Casts.EAGER: (35, 7),
}
"""Bytes that a number of an operand moves, and kernels. Inputs, weights and results' gradients each take part in two
products, which read them along different dims (torchao/float8/float8_tensor.py, "six input tensors"). One kernel: reads
2, writes 1 each way (transformer_engine/common/transpose/cast_transpose.cu), and before it the largest value reads 2
(common/recipe/current_scaling.cu); Blackwell's products read either way, so that one copy is written
(``is_non_tn_fp8_gemm_supported``). Compiled: 2 for the largest value, 3 for
the cast, 2 for the transposed copy. Eager: absolute value and maximum 4 + 2, to float32 6, times the scale 8, clamped
8, cast 5, the copy 2 (the same folder, float8_utils.py, _ToFloat8ConstrFunc and preprocess_addmm)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """How a framework computes a model. `recompute_share` is the share of layers that compute again. `is_autocast`:
    weights are float32 and torch's autocast chooses the type of each operator, so that the residual stream, norms and
    softmax are float32. `casts` counts where `fmt` is fp8. `reduces_beside`: in the backward, what goes back over tp
    from columns is sent beside the products that give the weights' gradients
    (megatron/core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication)."""

    fmt: NumberFormat = NumberFormat.BF16
    casts: Casts = Casts.KERNEL
    attention: Attention = Attention.FLASH_2
    stack: Stack = Stack.FUSED
    recompute: Recompute = Recompute.NONE
    recompute_share: float = 1.0
    has_dropout: bool = False
    sequence_parallel: bool = True
    tp_overlap: bool = False
    reduces_beside: bool = False
    is_autocast: bool = False

    @property
    def is_fused(self) -> bool:
        """Whether chains of operators run as one kernel."""
        return self.stack in (Stack.FUSED, Stack.MEGATRON, Stack.COMPILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTime:
    """Costs of one micro-batch: forward, what is computed again, backward without it.

    `weights` is the part of the backward that gives the gradients of the linear layers' weights and may come later.
    `casts`: of the weights to fp8, in none of the others.
    """

    forward: Cost
    again: Cost
    backward: Cost
    weights: Cost = field(default_factory=Cost)
    casts: Cost = field(default_factory=Cost)

    def times(self, factor: float) -> "BlockTime":
        """The costs of `factor` such blocks."""
        return BlockTime(
            forward=self.forward.times(factor),
            again=self.again.times(factor),
            backward=self.backward.times(factor),
            weights=self.weights.times(factor),
            casts=self.casts.times(factor),
        )


def _cast(device: Device, numel: float, fmt: NumberFormat, casts: Casts) -> Cost:
    """An operand's casts for the two products that it takes part in."""
    if fmt is not NumberFormat.FP8:
        return Cost()
    num_bytes, kernels = _CASTS[casts]
    if casts in (Casts.KERNEL, Casts.CURRENT) and device.generation is Generation.BLACKWELL:
        num_bytes -= 1
    return stream_cost(device, num_bytes * numel, kernels)


def _products(device: Device, tokens: int, n: int, k: int, fmt: NumberFormat) -> tuple[Cost, Cost, Cost]:
    """The products of one linear layer: y = x W, then dx and dW. Rows in memory are as wide as its inputs or outputs,
    never as there are tokens."""

    def product(rows: int, columns: int, inner: int) -> Cost:
        return Cost(matmul_s=matmul_s(device, rows, columns, inner, fmt=fmt, widths=(n, k)), num_kernels=1)

    return product(tokens, n, k), product(tokens, k, n), product(n, k, tokens)


def _attention(device: Device, scores: AttentionScores, batch: int, how: Numerics) -> tuple[Cost, Cost]:
    """Forward and backward of `batch` heads and windows."""
    s, d = scores.positions, scores.head_size
    if how.attention is not Attention.SCORES_IN_MEMORY:
        return _fused_attention(device, scores, batch, how.attention)
    scores_bytes = 2.0 * batch * s * s
    dropped, dropped_back = _DROPOUT_PASSES if how.has_dropout else (0.0, 0.0)
    passes, passes_back = _score_passes(scores, how)
    kernels = 2 if how.is_fused else 1 + passes / 2
    score, use = matmul_s(device, s, s, d, batch=batch), matmul_s(device, s, d, s, batch=batch)
    forward = Cost(attention_s=score + use, num_kernels=2)
    forward += stream_cost(device, (passes + dropped) * scores_bytes, kernels)
    backward = Cost(attention_s=2 * (score + use), num_kernels=4)
    backward += stream_cost(device, (passes_back + dropped_back) * scores_bytes, kernels + 1)
    return forward, backward


def _score_passes(scores: AttentionScores, how: Numerics) -> tuple[float, float]:
    """16-bit passes over the scores, forward and backward, beside dropout's. See [Note: operations of a block]."""
    forward, backward = 2.0, 3.0
    if how.stack is Stack.WRITTEN_OUT:
        forward, backward = forward + 6, backward + (4 if scores.is_causal else 2)
    if how.is_autocast and not how.is_fused:
        forward, backward = forward + 8, backward + 9
    return forward, backward


def _fused_attention(device: Device, scores: AttentionScores, batch: int, kind: Attention) -> tuple[Cost, Cost]:
    s, d = scores.positions, scores.head_size + scores.added_width
    is_dense = kind is Attention.DENSE_MASK
    is_half = scores.is_causal and not is_dense
    flops = 4.0 * batch * s * s * d / (2 if is_half else 1)
    mask_s = stream_s(device, 2.0 * batch * s * s) if is_dense else 0.0
    peak = device.peak_tflops * 1e12 * device.clock_share
    rates = [
        peak * attention_share(device, kind, head_size=d, seq_len=s, is_backward=is_backward, is_causal=is_half)
        for is_backward in (False, True)
    ]
    forward = Cost(attention_s=flops / rates[0], memory_s=mask_s, num_kernels=1)
    return forward, Cost(attention_s=_ATTENTION_BACKWARD * flops / rates[1], memory_s=mask_s, num_kernels=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one of `tp` ranks has of a micro-batch of `micro_batch` samples."""

    micro_batch: int
    tp: int
    sequence_parallel: bool

    def of(self, size: int, over: Over) -> float:
        """The mean part of `size` that a rank has."""
        is_split = over is Over.TP or (over is Over.POSITIONS and self.sequence_parallel)
        return size / self.tp if is_split else size


def _elementwise(device: Device, each: Elementwise, share: Share, how: Numerics) -> tuple[Cost, Cost]:
    """Forward and backward of an elementwise entry."""
    passes, times = (each.passes, each.backward) if how.is_fused else (each.eager_passes, each.eager_backward)
    is_wide = how.is_autocast and each.over is Over.POSITIONS
    if how.stack is Stack.WRITTEN_OUT and each.written_passes is not None and each.written_backward is not None:
        passes, times = each.written_passes, each.written_backward / each.written_passes
        is_wide = how.is_autocast
    width = 4.0 if is_wide else 2.0
    mask = passes / _ADDITION_PASSES if each.has_dropout and how.has_dropout else 0.0
    num_bytes = (width * passes + mask) * share.of(each.numel, each.over) * share.micro_batch
    if each.is_norm and passes == each.passes:
        num_bytes /= _NORM_SHARE
    forward = stream_cost(device, num_bytes, passes / _PASSES_A_KERNEL)
    return forward, forward.times(times)


def _changes(
    link: Link, block: Block, share: Share, way: Direction, fmt: NumberFormat = NumberFormat.BF16
) -> tuple[Cost, Cost]:
    """The collectives of a block's changes over tp of one way, forward and backward, nothing hidden. What is gathered
    for products in fp8 was cast before."""
    gathered, summed = Cost(), Cost()
    for change in block.tp_changes:
        if change.direction is not way or share.tp == 1:
            continue
        num_bytes = 2.0 * share.micro_batch * math.prod(change.shape)
        if share.sequence_parallel and change.positions is not None:
            cast = num_bytes / (2 if fmt is NumberFormat.FP8 else 1)
            gathered += Cost(tp_s=gather_s(link, cast, share.tp), num_kernels=1).times(change.times)
            seconds = gather_s(link, num_bytes, share.tp)
        else:
            seconds = all_reduce_s(link, num_bytes, share.tp)
        summed += Cost(tp_s=seconds, num_kernels=1).times(change.times)
    return (gathered, summed) if way is Direction.ENTER else (summed, gathered)


def _all_changes(link: Link, block: Block, share: Share) -> tuple[Cost, Cost]:
    """Of a block in 16 bits, both ways together."""
    into, out = (_changes(link, block, share, way) for way in (Direction.ENTER, Direction.LEAVE))
    return into[0] + out[0], into[1] + out[1]


def _beside_weights(device: Device, block: Block, share: Share, how: Numerics, weights: Cost, sent_s: float) -> Cost:
    """What the backward saves where its changes into columns, of `sent_s`, run beside the weights' products, which then
    have fewer processors."""
    if not how.reduces_beside or share.tp == 1:
        return Cost()
    taken = replace(device, taken_sms=NCCL_BLOCKS)
    slow = _operations(taken, block, share, how, how.fmt)[0].to_weights
    return Cost(tp_s=-min(sent_s, slow.matmul_s) * weights.matmul_s / slow.matmul_s)


def _in_pieces(device: Device, how: Numerics, gathered: Cost, summed: Cost, product: Cost) -> Cost:
    """What is saved where pieces of a product run beside what they gather or sum. See [Note: user buffers]."""
    if not (how.tp_overlap and how.reduces_beside):
        return Cost()
    beside_s = summed.tp_s * (1 - 1 / _PIECES)
    hidden_s = min(gathered.tp_s + beside_s, product.matmul_s)
    return Cost(tp_s=min(beside_s, product.matmul_s) * _PIECE_BLOCKS / device.num_sms - hidden_s)


def _hidden(cost: Cost, tp: int, how: Numerics) -> Cost:
    """`cost` with what torch's asynchronous tp hides: all but the first of tp pieces (Wang et al. 2022), at most
    _MOST_HIDDEN of it."""
    if not how.tp_overlap or how.reduces_beside:
        return cost
    hidden_s = min(cost.tp_s * (tp - 1) / tp, _MOST_HIDDEN * cost.seconds)
    return cost + Cost(tp_s=-hidden_s)


def layer_time(device: Device, inside: Link, block: Block, share: Share, how: Numerics) -> BlockTime:
    """Costs of a layer on one tp rank. See [Note: operations of a block]."""
    found = _operations(device, block, share, how, how.fmt)
    linear, (scores_forward, scores_backward), (streaming, streaming_backward) = found
    into, out = (_changes(inside, block, share, way, how.fmt) for way in (Direction.ENTER, Direction.LEAVE))
    entering = into[0] + out[0] + _in_pieces(device, how, into[0], out[0], linear.forward)
    forward = _hidden(linear.forward + streaming + scores_forward + entering, share.tp, how)
    leaving = into[1] + out[1] + _in_pieces(device, how, out[1], Cost(), linear.to_input)
    beside = _beside_weights(device, block, share, how, linear.to_weights, into[1].tp_s)
    backward = linear.to_input + linear.to_weights + streaming_backward + scores_backward + leaving + beside
    backward = _hidden(backward, share.tp, how) + linear.to_biases
    again = {
        Recompute.NONE: Cost(),
        Recompute.LAYER: forward,
        Recompute.SCORES: scores_forward,
        Recompute.EVERY_OTHER: linear.forward.times(0.5) + streaming + entering.times(0.5),
    }[how.recompute].times(how.recompute_share)
    return BlockTime(forward=forward, again=again, backward=backward, weights=linear.to_weights, casts=linear.casts)


def first_time(device: Device, inside: Link, block: Block, share: Share, how: Numerics) -> BlockTime:
    """Costs of the first block, which is computed in 16 bits and never again. A look-up's backward adds rows to the
    gradient, as many bytes as it read and wrote."""
    linear, _, (streaming, _) = _operations(device, block, share, how, NumberFormat.BF16)
    entering, leaving = _all_changes(inside, block, share)
    return BlockTime(
        forward=linear.forward + streaming + entering,
        again=Cost(),
        backward=linear.to_weights + linear.to_biases + streaming + leaving,
    )


def last_time(device: Device, inside: Link, block: Block, share: Share, how: Numerics) -> BlockTime:
    """Costs of the last block and of the loss: both work in 16 bits or more."""
    linear, _, (streaming, streaming_backward) = _operations(device, block, share, how, NumberFormat.BF16)
    entering, leaving = _all_changes(inside, block, share)
    # A loss that sums over tp reads this rank's part of what the block gives.
    is_split = block.loss_sums[0] > 0
    given = share.micro_batch * math.prod(block.output.shape) / (share.tp if is_split else 1)
    num_bytes, backward_bytes = _LOSS_BYTES.get(how.stack, (24, 27))
    loss, loss_backward = stream_cost(device, num_bytes * given, 10), stream_cost(device, backward_bytes * given, 5)
    backward = linear.to_input + linear.to_weights + linear.to_biases + streaming_backward
    return BlockTime(
        forward=linear.forward + streaming + loss + entering,
        again=Cost(),
        backward=backward + loss_backward + leaving,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Linear:
    """The linear layers of a block: their products with their operands' casts, the casts of their weights, and the sums
    that are their biases' gradients."""

    forward: Cost = field(default_factory=Cost)
    to_input: Cost = field(default_factory=Cost)
    to_weights: Cost = field(default_factory=Cost)
    to_biases: Cost = field(default_factory=Cost)
    casts: Cost = field(default_factory=Cost)


def _operations(
    device: Device, block: Block, share: Share, how: Numerics, fmt: NumberFormat
) -> tuple[_Linear, tuple[Cost, Cost], tuple[Cost, Cost]]:
    """The linear layers of a block; its attention and its elementwise work, each forward and backward."""
    linear, scores, streaming = _Linear(), (Cost(), Cost()), (Cost(), Cost())
    for each in block.operations:
        match each:
            case Product():
                linear = _with_product(linear, device, each, share, fmt, how.casts)
            case AttentionScores():
                heads = -(-each.heads // share.tp)
                found = _attention(device, each, share.micro_batch * heads * each.windows, how)
                scores = (scores[0] + found[0], scores[1] + found[1])
            case Elementwise():
                found = _elementwise(device, each, share, how)
                streaming = (streaming[0] + found[0], streaming[1] + found[1])
    return linear, scores, streaming


def _with_product(
    linear: _Linear, device: Device, each: Product, share: Share, fmt: NumberFormat, casts: Casts
) -> _Linear:
    rows = share.micro_batch * each.rows
    out = -(-each.out // (share.tp if each.split == "out" else 1))
    into = -(-each.into // (share.tp if each.split == "into" else 1))
    forward, to_input, to_weights = _products(device, rows, out, into, fmt)
    bias = stream_cost(device, 2.0 * rows * out, 1) if each.has_bias else Cost()
    return _Linear(
        forward=linear.forward + forward + _cast(device, rows * into, fmt, casts),
        to_input=linear.to_input + to_input + _cast(device, rows * out, fmt, casts),
        to_weights=linear.to_weights + to_weights,
        to_biases=linear.to_biases + bias,
        casts=linear.casts + _cast(device, out * into, fmt, casts),
    )
