"""Seconds of single kernels and single collectives on a device of the hardware table.

[Note: matrix products]
A product of m x n x k runs as tiles over the device's processors, one wave of tiles after another; the last wave is
often half empty (NVIDIA, Matrix Multiplication Background User's Guide, tile and wave quantisation). The best measured
product, times `usual_share`, is what 8192 cubed reaches, at its own share of full waves; another shape reaches that
rate times its own share over that one's, never more. Each tile also fills and drains: the first operands take two trips
to memory and the result is written while nothing computes, so that a product over a short k reaches less (attention's
scores: k is a head's width). On Hopper one group of warps writes a tile while another computes the next (CUTLASS,
media/docs/efficient_gemm.md, warp specialization): 16384 x 8192 over a k of 1280 reaches 0.95 of what it does over 7168
(714.5 and 752.9 TFLOP/s, Hugging Face, The Smol Training Playbook). Such a kernel is launched once for each processor,
and its blocks divide the tiles among them beforehand: where a collective holds some of the processors, the blocks that
find none wait until the others have done all their tiles, so that a product beside a collective takes twice as long
(measured under FSDP on H100, pytorch/pytorch issue 143988; once more by forums.developer.nvidia.com 337991). On older
devices each tile is a block, and takes the next processor that is free; on Blackwell blocks ask for their next tile
(CUTLASS, media/docs/blackwell_cluster_launch_control.md). Where the tiles of a product are too few for the processors,
its inner dim is split over them (the same page of CUTLASS, Parallelized Reductions), as for the gradients of small
weights. A product that moves more bytes than it computes runs at the memory's rate.

Rows that do not begin at multiples of 16 bytes are loaded by 4 bytes where their width is even, else by 2 (kernels
named align2 and align1 instead of align8). Even: 272.7 TFLOP/s for a feed-forward of 10922, 398.4 for one of 10944, on
H100 (stas00/ml-engineering, training/performance/README.md, swiglu-maf-bench). Odd: cuBLAS 11 takes a half to a fourth
of what CUDA cores take (NVIDIA, Matrix Multiplication Background User's Guide, figure 2, entered as known), which reach
14.8 TFLOP/s on V100 where tensor cores reach 112.3 (DeepBench, results/train/DeepBench_NV_V100.xlsx, 4096 x 7000 x
4096): the middle, three times. Taken for all devices (assumed).
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from emberward.perf._hardware import BestProduct, Device, Generation, Link, NumberFormat

_TILES = ((256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.9))
"""Rows, columns and relative rate of the tiles of cuBLAS' large products; 0.9 for the small one is assumed."""

_USUAL = 8192
"""Rows, columns and inner dim of the product that `Device.usual_share` was measured with."""

_GAP_S = 0.9e-6
"""From the end of a kernel to the start of the next, launched ahead: 3.8 us a kernel of 2.9 us on a V100 (NVIDIA,
Getting Started with CUDA Graphs, entered as known). Taken for all devices (assumed)."""

_EVEN_SHARE, _ODD_SHARE = 272.73 / 398.38, 3 * 14.8 / 112.3
"""Rate of products whose rows are not aligned to 16 bytes. See [Note: matrix products]."""

NCCL_BLOCKS = 24
"""Processors that an all-gather of NCCL takes from the products beside it, on an H100 in a test of FSDP's prefetch
(forums.developer.nvidia.com 337991). Taken for all devices (assumed)."""

_TRIP_S = 0.5e-6
"""One trip to the device's memory, about 500 ns on A100 and H100 in pointer chases (Jia et al. 2018's method)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of a piece of work by what bounds it, and its kernels. Communication is tp's, what is not hidden."""

    matmul_s: float = 0.0
    attention_s: float = 0.0
    memory_s: float = 0.0
    tp_s: float = 0.0
    num_kernels: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            matmul_s=self.matmul_s + other.matmul_s,
            attention_s=self.attention_s + other.attention_s,
            memory_s=self.memory_s + other.memory_s,
            tp_s=self.tp_s + other.tp_s,
            num_kernels=self.num_kernels + other.num_kernels,
        )

    def times(self, factor: float) -> "Cost":
        """This work `factor` times."""
        return Cost(
            matmul_s=self.matmul_s * factor,
            attention_s=self.attention_s * factor,
            memory_s=self.memory_s * factor,
            tp_s=self.tp_s * factor,
            num_kernels=self.num_kernels * factor,
        )

    @property
    def seconds(self) -> float:
        """All of it, one kernel after another, launches hidden but for the gap behind each kernel."""
        return self.matmul_s + self.attention_s + self.memory_s + self.tp_s + self.gaps_s

    @property
    def gaps_s(self) -> float:
        """Of it the gaps between kernels."""
        return _GAP_S * self.num_kernels


def _waves(device: Device, tiles: int) -> int:
    """Tiles one after another on the processor that works longest."""
    free = device.num_sms - device.taken_sms
    if not device.is_persistent or device.generation is Generation.BLACKWELL:
        return math.ceil(tiles / free)
    blocks = min(tiles, device.num_sms)
    return math.ceil(tiles / blocks) * math.ceil(blocks / free)


def _wave_shares(device: Device, m: int, n: int, batch: int) -> Iterator[tuple[float, int]]:
    """For each way to tile a product the share of the processors that work, over its waves, in (0, 1], and into how
    many parts its inner dim is split. See [Note: matrix products]."""
    for rows, columns, rate in _TILES:
        tiles = math.ceil(m / rows) * math.ceil(n / columns) * batch
        waves = _waves(device, tiles)
        share = rate * m * n * batch / (waves * device.num_sms * rows * columns)
        yield share, 1
        splits = device.num_sms // tiles
        if splits > 1:
            yield splits * share, splits


def _busy_share(device: Device, k: int) -> float:
    """Share of a tile's time in which it computes: k over k and what filling and draining would compute."""
    rows, columns, _ = _TILES[0]
    drain_s = 0.0 if device.is_persistent else stream_s(device, 2.0 * rows * columns * device.num_sms)
    fill_s = 2 * _TRIP_S + drain_s
    flops_per_s = device.peak_tflops * 1e12 / device.num_sms
    return k / (k + fill_s * flops_per_s / (2.0 * rows * columns))


def _share(device: Device, m: int, n: int, k: int, batch: int) -> float:
    return max(share * _busy_share(device, k // splits) for share, splits in _wave_shares(device, m, n, batch))


@functools.cache
def _usual_share(device: Device) -> float:
    """The share of the product whose rate `usual_share` tells."""
    return _share(replace(device, taken_sms=0), _USUAL, _USUAL, _USUAL, 1)


def _aligned_share(sizes: tuple[int, ...], width: int) -> float:
    """Share of the rate that is left where rows of `sizes` elements are not aligned. See [Note: matrix products]."""
    if all(size * width % 16 == 0 for size in sizes):
        return 1.0
    return _EVEN_SHARE if all(size * width % 4 == 0 for size in sizes) else _ODD_SHARE


def matmul_s(
    device: Device,
    m: int,
    n: int,
    k: int,
    *,
    batch: int = 1,
    fmt: NumberFormat = NumberFormat.BF16,
    widths: tuple[int, int] | None = None,
) -> float:
    """Seconds of `batch` products of m x k with k x n, results in bf16. `widths`: of the rows that operands and result
    have in memory, in elements; None: n and k. See [Note: matrix products]."""
    best: BestProduct = device.best_bf16
    width = 2
    if fmt is NumberFormat.FP8:
        if device.best_fp8 is None:
            raise ValueError(f"{device.name} has no fp8")
        best, width = device.best_fp8, 1
    share = min(1.0, _share(device, m, n, k, batch) / _usual_share(device))
    share *= _aligned_share((n, k) if widths is None else widths, width)
    compute_s = 2.0 * m * n * k * batch / (best.tflops * device.usual_share * 1e12 * device.clock_share * share)
    return max(compute_s, stream_s(device, batch * (width * (m * k + k * n) + 2 * m * n)))


def stream_s(device: Device, num_bytes: float) -> float:
    """Seconds of a kernel that only moves `num_bytes` through the device's memory."""
    return num_bytes / (device.memory_bytes_per_s * device.memory)


def stream_cost(device: Device, num_bytes: float, kernels: float) -> Cost:
    """So many kernels that together move `num_bytes` through the device's memory. Each begins and ends with a trip
    there, in which nothing streams."""
    return Cost(memory_s=stream_s(device, num_bytes) + 2 * _TRIP_S * kernels, num_kernels=kernels)


def all_reduce_s(link: Link, num_bytes: float, num_ranks: int) -> float:
    """Seconds of an all-reduce of `num_bytes` on each of `num_ranks`: 2 (n - 1) / n of them cross the link."""
    sent = 2 * (num_ranks - 1) / num_ranks * num_bytes
    return _collective_s(link, num_bytes, sent / link.all_reduce_bytes_per_s)


def gather_s(link: Link, num_bytes: float, num_ranks: int) -> float:
    """Seconds of an all-gather to, or a reduce-scatter from, `num_bytes` whole on each rank: (n - 1) / n of them.

    NCCL has them as rings alone, whose first piece passes every rank (src/graph/tuning.cc); it reduces over many nodes
    by trees, whose depth is left out.
    """
    seconds = _collective_s(link, num_bytes, (num_ranks - 1) / num_ranks * num_bytes / link.bytes_per_s)
    return seconds + link.hops_s if seconds else 0.0


def _collective_s(link: Link, num_bytes: float, full_rate_s: float) -> float:
    """`full_rate_s` at the share that `num_bytes` reach, no less than the latency; 0 where nothing is sent."""
    return max(link.latency_s, full_rate_s / link.share(num_bytes)) if full_rate_s else 0.0
