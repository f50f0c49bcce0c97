"""Rates of fused attention kernels by their generation, head width and sequence length.

[Note: attention rates]
FlashAttention-3 (Shah et al. 2024, arXiv 2407.08608) measured on an H100 SXM, 16 Ki tokens, forward with heads of 128
(figure 5, causal and not) and backward (figure 6, not causal). FlashAttention-2 and cuDNN stand in the same figures, as
do heads of 64. On an A100 FlashAttention-2 reaches 0.73 of the peak forward and 0.63 backward (Dao 2023, arXiv
2307.08691, section 4.1), its predecessor 0.30 to 0.50 and 0.25 to 0.35 (section 1): the middle is taken. On other
boards it stands to the best product as there (an RTX 4090 reaches 0.92 and 0.60 of its peak over 2,048 positions,
causal: apache/tvm, tl_doc/flash_perf.md; predicted 0.77 and 0.53). How a rate falls for shorter sequences is taken from
the H100's FlashAttention-2 curve for those (assumed). An A100's rates are shares of its peak; the first generation is
taken at the same share of FlashAttention-2's rate on every device (assumed). Blackwell's own kernels reach Hopper's
share of the peak (assumed from the longest forward: FlashAttention-4 1613 on B200, 1.3 times cuDNN, which is 0.55 of
the peak there and 0.54 on H100); the second generation, of Ampere's instructions, H100's rate (assumed). On AMD's
devices attention stands to the best product as on H100 (assumed).

These are rates of short benchmarks, at 1,830 MHz on the H100 (its appendix, entered as known). Under the power limit a
device falls below that within a tenth of a second, as it does in training: `Device.attention` is what attention keeps,
but for the first generation and dense masks, which leave more of the device idle (assumed). On an A100 this gives 193
TFLOP/s without a mask and 167 with one over 4,096 positions of heads of 128, 183 and 136 over 1,024; measured after a
long warm-up are 184, 156, 179 and 144 (liangan1/GPU_travel, performance/flash-attn/README.md).
"""

from bisect import bisect_left
from enum import StrEnum

from emberward.perf._hardware import Device, Generation

_LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
_FLASH_2 = ((191, 260, 298, 319, 333, 335), (309, 350, 362, 368, 370, 370), (214, 260, 291, 310, 318, 322))
_CUDNN = ((315, 410, 484, 518, 529, 539), (497, 574, 617, 609, 600, 595), (305, 408, 465, 499, 518, 516))
_FLASH_3 = ((292, 423, 521, 579, 602, 616), (467, 565, 625, 638, 646, 648), (316, 424, 501, 542, 559, 561))
"""Forward with a causal mask, without one, and backward. See [Note: attention rates]."""
_NARROW = {"flash_2": (295 / 333, 264 / 291), "cudnn": (379 / 529, 395 / 465), "flash_3": (460 / 602, 422 / 501)}
"""Rate with heads of 64 over that with heads of 128, forward over 8,192 positions with a causal mask and backward over
2,048; narrower ones are taken in proportion to their width."""
_DIAGONAL = 2048 * (124.57 / 99.23 - 1)
"""Positions whose work a causal backward adds for the tiles on the diagonal: FlashAttention-2 over 2,048 positions and
heads of 128 reaches 99.23 TFLOP/s causal and 124.57 not, on an RTX 4090 (apache/tvm, tl_doc/flash_perf.md). Taken for
all devices and kernels but Hopper's own, and in proportion to the length (assumed), down to the time of the whole
square."""
_OWN_DIAGONAL = 2048 * (434.825 * 1631.26e-6 / 0.5154 - 1)
"""The same of Hopper's own kernels: FlashAttention-3 on an H100, 4 x 48 heads of 128 over 2,048 positions, takes
1631.26 us for the 0.5154 TFLOP of a causal backward (meta-pytorch/tritonbench pull request 1267) and reaches 434.825
TFLOP/s without a mask (1256). Over 1,024, 4,096 and 8,192 positions this gives 0.57, 0.84 and 0.91 of the rate without
a mask; measured are 0.58, 0.85 and 0.96. Taken for cuDNN and Blackwell too (assumed)."""
_H100_TFLOPS = 989.0
_H100_BEST = 794.5 / 989.0
"""Share of the peak of the best product (`_devices.H100`)."""
_A100_FLASH_2 = (0.73, 0.63)
_A100_BEST = 271.2 / 312.0
"""Share of the peak of the best product (`_devices.A100`)."""
_FLASH_1_OVER_2 = (0.40 / 0.73, 0.30 / 0.63)


class Attention(StrEnum):
    """The kernel: scores in memory; FlashAttention of a generation (cuDNN's stands beside the third); one kernel that
    reads a dense mask, which computes both halves of the square (PyTorch's memory-efficient kernel)."""

    SCORES_IN_MEMORY = "scores_in_memory"
    FLASH_1 = "flash_1"
    FLASH_2 = "flash_2"
    CUDNN = "cudnn"
    FLASH_3 = "flash_3"
    DENSE_MASK = "dense_mask"


def attention_share(
    device: Device, kind: Attention, *, head_size: int, seq_len: int, is_backward: bool, is_causal: bool
) -> float:
    """Share of the bf16 peak that a fused kernel reaches on its own operations. See [Note: attention rates]."""
    which = 2 if is_backward else 0 if is_causal else 1
    is_own = device.generation is not Generation.AMPERE and kind in (Attention.CUDNN, Attention.FLASH_3)
    rates, narrow = _FLASH_2, _NARROW["flash_2"]
    if is_own:
        rates, narrow = _CUDNN if kind is Attention.CUDNN else _FLASH_3, _NARROW[kind]
    share = _at(rates[which], seq_len) / _H100_TFLOPS
    if device.generation is Generation.AMPERE:
        # The shares of the peak were reached without a mask; one costs what it does on H100.
        longest = rates[2 if is_backward else 1][-1] / _H100_TFLOPS
        share *= _A100_FLASH_2[is_backward] / longest * (device.best_bf16.tflops / device.peak_tflops) / _A100_BEST
    elif not is_own and device.generation is Generation.BLACKWELL:
        share *= _H100_TFLOPS / device.peak_tflops
    if device.generation is Generation.CDNA:
        share *= device.best_bf16.tflops / device.peak_tflops / _H100_BEST
    if kind in (Attention.FLASH_1, Attention.DENSE_MASK):
        share *= _FLASH_1_OVER_2[is_backward]
    else:
        share *= device.attention
    if is_causal and is_backward:
        share *= max(0.5, seq_len / (seq_len + (_OWN_DIAGONAL if is_own else _DIAGONAL)))
    return share * _width_share(head_size, narrow[is_backward])


def _width_share(head_size: int, of_64: float) -> float:
    """A head is padded to the next multiple of 32 (FlashAttention's kernels), and narrow heads reach less."""
    padded = -(-head_size // 32) * 32
    narrow = 1.0 if padded >= 128 else of_64 if padded >= 64 else of_64 * padded / 64
    return narrow * head_size / padded


def _at(rates: tuple[int, ...], seq_len: int) -> float:
    """The rate at a length, linear between those measured."""
    if seq_len <= _LENGTHS[0]:
        return rates[0] * seq_len / _LENGTHS[0]
    if seq_len >= _LENGTHS[-1]:
        return float(rates[-1])
    above = bisect_left(_LENGTHS, seq_len)
    low, high = _LENGTHS[above - 1], _LENGTHS[above]
    return rates[above - 1] + (rates[above] - rates[above - 1]) * (seq_len - low) / (high - low)
