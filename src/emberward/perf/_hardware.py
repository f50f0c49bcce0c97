"""The hardware table: what devices and links reach in measurements that others published, with the source of each.

[Note: not fitted]
No entry comes from a training run: peaks and bandwidths are the makers', efficiencies those of single kernels and
single collectives. Where nothing was published the entry says `assumed`. The runs that predictions are held against
(docs/preflight.md) have had no part in any entry.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class NumberFormat(StrEnum):
    """Number type of the large matrix products."""

    BF16 = "bf16"
    FP8 = "fp8"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestProduct:
    """The fastest matrix product found on a device: `tflops` at shape m x n x k."""

    tflops: float
    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator and its efficiency table.

    `peak_tflops` is dense bf16, the number that MFU divides by; fp8 is twice that. `clock_share` is what a power limit
    leaves of the clock. `best_bf16` is the fastest product of a search over shapes; `usual_share` is what cuBLAS
    reaches on a large square product of random numbers, as a share of the best one's rate. `memory` is the share
    of the memory's bandwidth that a streaming kernel reaches.
    `host_s` is what one kernel costs when each is waited for before the next is launched. `chip_spread` is the standard
    deviation of what single devices of the kind reach in products, as a share of the median. `is_persistent`: a product
    is launched as one block a processor, each of which writes a tile while it computes the next. `taken_sms`:
    processors that something else holds.
    """

    name: str
    pattern: str
    peak_tflops: float
    memory_gib: float
    memory_bytes_per_s: float
    num_sms: int
    best_bf16: BestProduct
    best_fp8: BestProduct | None
    usual_share: float
    memory: float
    clock_share: float
    host_s: float
    sources: tuple[str, ...]
    chip_spread: float
    is_persistent: bool = False
    taken_sms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one device reaches over a link in one direction, large messages, and the time of an empty one.

    `all_reduce_bytes_per_s` is the bus bandwidth of an all-reduce, above the others' where a switch reduces. `ramp`
    gives the share of these rates that a collective of so many bytes reaches, ascending. `hops_s` is what the first
    piece needs to pass along a ring of several nodes.
    """

    bytes_per_s: float
    all_reduce_bytes_per_s: float
    latency_s: float
    source: str
    hops_s: float = 0.0
    ramp: tuple[tuple[int, float], ...] = ()

    def share(self, num_bytes: float) -> float:
        """Share of the rates that a collective of `num_bytes` reaches, in (0, 1]: the ramp, linear between its points.

        Without a ramp 1: the latency alone counts.
        """
        if not self.ramp or num_bytes >= self.ramp[-1][0]:
            return 1.0
        before_bytes, before = 0, self.ramp[0][1]
        for at_bytes, share in self.ramp:
            if num_bytes <= at_bytes:
                part = (num_bytes - before_bytes) / (at_bytes - before_bytes)
                return before + (share - before) * part
            before_bytes, before = at_bytes, share
        return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Nodes of equal devices: `inside` a node, `between` nodes (a device's share of the node's network)."""

    name: str
    device: Device
    devices_per_node: int
    inside: Link
    between: Link


_MAMF = "stas00/ml-engineering compute/accelerator/README.md, Maximum Achievable Matmul FLOPS (mean of 100 runs)"
_STREAM = "memory: BabelStream triad on A100 and H100, about 0.9 of the stated bandwidth"
_USUAL_A100 = (
    "usual_share: 257 TFLOP/s, cuBLAS, 8192 cubed, torch.randn (thonking.ai, Strangely, Matrix Multiplications)"
)
_USUAL_H100 = (
    "usual_share: 716 TFLOP/s, cuBLAS bf16, 8192 cubed, random data (Shankhdhar 2024, Outperforming cuBLAS on H100); "
    "taken for fp8 and for other power limits too (assumed)"
)
_HOST = "host_s: assumed, 10 us for an operator's dispatch in torch and 10 us for the launch and its wait"

_SPREAD_V100 = 0.08 / 5.4
"""Sinha et al. 2022 (SC22, arXiv 2208.11035): performance varies by 8% over a cluster's V100s, between a box plot's
whiskers (entered as known), which are 5.4 standard deviations apart in a normal distribution. Taken for A100 too
(assumed)."""
_SPREAD_H200 = 0.034 / 2.85
"""stas00/ml-engineering compute/accelerator/benchmarks/README.md: sustained bf16 products differ by 3.4% over a node of
8 H200 (4.9% over 8 B200); eight normal draws span 2.85 standard deviations. Taken for H100 too (assumed)."""

V100 = Device(
    name="V100 32GB SXM2",
    pattern="V100",
    peak_tflops=125.0,
    memory_gib=32.0,
    memory_bytes_per_s=0.9e12,
    num_sms=80,
    best_bf16=BestProduct(tflops=101 / 112 * 125, m=8192, n=8192, k=8192),
    best_fp8=None,
    usual_share=257 / 271.2,
    memory=0.9,
    clock_share=1.0,
    host_s=20e-6,
    chip_spread=_SPREAD_V100,
    sources=(
        "NVIDIA V100 datasheet: 125 TFLOP/s in fp16, 900 GB/s, 80 processors",
        "best product: cuBLAS fp16, 8192 cubed, about 101 of 112 TFLOP/s on the PCIe board "
        "(forums.developer.nvidia.com 79781); the same share of the SXM2 board's peak (assumed)",
        "usual_share, memory: as the A100's (assumed)",
        _HOST,
    ),
)

A100 = Device(
    name="A100 80GB SXM",
    pattern="A100",
    peak_tflops=312.0,
    memory_gib=80.0,
    memory_bytes_per_s=2.039e12,
    num_sms=108,
    best_bf16=BestProduct(tflops=271.2, m=1024, n=10240, k=5120),
    best_fp8=None,
    usual_share=257 / 271.2,
    memory=0.9,
    clock_share=1.0,
    host_s=20e-6,
    chip_spread=_SPREAD_V100,
    sources=("NVIDIA A100 datasheet", _MAMF, _USUAL_A100, _STREAM, _HOST),
)

A100_40 = replace(
    A100,
    name="A100 40GB SXM",
    pattern="A100-SXM4-40GB",
    memory_gib=40.0,
    memory_bytes_per_s=1.555e12,
    sources=(*A100.sources, "memory: NVIDIA A100 datasheet, 40 GB: 1,555 GB/s; all else as the 80 GB device"),
)

H100 = Device(
    name="H100 80GB SXM",
    pattern="H100",
    peak_tflops=989.0,
    memory_gib=80.0,
    memory_bytes_per_s=3.35e12,
    num_sms=132,
    best_bf16=BestProduct(tflops=794.5, m=2048, n=2048, k=13312),
    best_fp8=BestProduct(tflops=1402.6, m=1024, n=9216, k=14336),
    usual_share=716 / 794.5,
    memory=0.9,
    clock_share=1.0,
    host_s=20e-6,
    chip_spread=_SPREAD_H200,
    is_persistent=True,
    sources=("NVIDIA H100 datasheet", _MAMF, _USUAL_H100, _STREAM, _HOST),
)

H100_500W = Device(
    name="H100 96GB SXM at 500 W",
    pattern="H100 500W",
    peak_tflops=989.0,
    memory_gib=96.0,
    memory_bytes_per_s=2.4e12,
    num_sms=132,
    best_bf16=H100.best_bf16,
    best_fp8=H100.best_fp8,
    usual_share=H100.usual_share,
    memory=0.9,
    clock_share=0.9,
    host_s=20e-6,
    chip_spread=_SPREAD_H200,
    is_persistent=True,
    sources=(
        "torchtitan benchmarks/llama3_h100_202412_torchtitan.md: 96 GB HBM2e at 2.4 TB/s, 500 W",
        "clock_share: assumed, 500 W on the line from the H100 NVL's datasheet (835 at 400 W) to the SXM's (989 at "
        "700 W)",
        _MAMF,
        _USUAL_H100,
        _STREAM,
        _HOST,
    ),
)

H200 = Device(
    name="H200 141GB SXM",
    pattern="H200",
    peak_tflops=989.0,
    memory_gib=141.0,
    memory_bytes_per_s=4.8e12,
    num_sms=132,
    best_bf16=H100.best_bf16,
    best_fp8=BestProduct(tflops=1453.4, m=1280, n=4096, k=12032),
    usual_share=H100.usual_share,
    memory=0.9,
    clock_share=1.0,
    host_s=20e-6,
    chip_spread=_SPREAD_H200,
    is_persistent=True,
    sources=("NVIDIA H200 datasheet", _MAMF, _USUAL_H100, _STREAM, _HOST),
)

_RAMP = (
    (2**20, 0.083),
    (2**21, 0.134),
    (2**22, 0.222),
    (2**23, 0.323),
    (2**24, 0.456),
    (2**25, 0.572),
    (2**26, 0.719),
    (2**27, 0.833),
    (2**28, 0.904),
    (2**29, 0.934),
    (2**30, 0.961),
    (2**34, 1.0),
)
"""Bus bandwidth of an all-reduce by its bytes, as shares of that of 16 GiB: all_reduce_bench.py on 8 H200, in
stas00/ml-engineering network/README.md. Taken for NVLink 3 too (assumed)."""

_NVLINK_2 = Link(
    bytes_per_s=124e9,
    all_reduce_bytes_per_s=124e9,
    latency_s=40e-6,
    ramp=_RAMP,
    source="bigscience experiments/bandwidth/n1_32gb_all_reduce_bench.txt: 990 Gb/s of 4 GB on 4 V100; ramp and "
    "latency as H200's",
)
_NVLINK_3 = Link(
    bytes_per_s=234.89e9,
    all_reduce_bytes_per_s=234.89e9,
    latency_s=40e-6,
    ramp=_RAMP,
    source="stas00/ml-engineering network/README.md: all-reduce of 16 GiB on 8 A100; ramp and latency as H200's",
)
_NVLINK_4 = Link(
    bytes_per_s=361.4e9,
    all_reduce_bytes_per_s=482.26e9,
    latency_s=40e-6,
    ramp=_RAMP,
    source="stas00/ml-engineering network/README.md: 8 H200, all-gather by ring, all-reduce in the switch; "
    "32 KiB in 40 us",
)


_RAMP_TCPX = (
    (2**20, 0.020),
    (2**21, 0.038),
    (2**22, 0.072),
    (2**23, 0.137),
    (2**24, 0.214),
    (2**25, 0.375),
    (2**26, 0.557),
    (2**27, 0.834),
    (2**28, 0.986),
    (2**29, 1.0),
)
"""Bus bandwidth of an all-gather by its bytes, as shares of that of 512 MiB: nccl-tests over two A3 High nodes, in the
Google Kubernetes Engine guide "Maximize GPU network bandwidth" (GPUDirect-TCPX)."""


def _network(gbit_per_s: float, *, share: float, source: str, ramp: tuple[tuple[int, float], ...] = ()) -> Link:
    """A device's share of a node's network, of which `share` is reached."""
    rate = share * gbit_per_s * 1e9 / 8
    return Link(bytes_per_s=rate, all_reduce_bytes_per_s=rate, latency_s=40e-6, source=source, ramp=ramp)


HOP_INSIDE_S, HOP_BETWEEN_S = 3.4e-6, 9.6e-6
"""One hop of a ring over NVLink and over the network, as NCCL prices its large messages: `hwLat`, ring, simple, in
src/graph/tuning.cc at 01afd20a7."""

_REACHED = "0.9 of the wire (assumed; nccl-tests between DGX nodes reach 0.9 to 0.95), latency as inside a node"


CLUSTERS: dict[str, Cluster] = {
    cluster.name: cluster
    for cluster in (
        Cluster(
            name="v100-dgx2",
            device=V100,
            devices_per_node=16,
            inside=_NVLINK_2,
            between=_network(50, share=0.9, source="DGX-2: 8 EDR InfiniBand links of 100 Gb/s a node; " + _REACHED),
        ),
        Cluster(
            name="v100-efa",
            device=V100,
            devices_per_node=8,
            inside=_NVLINK_2,
            between=_network(12.5, share=0.73, source="100 Gb/s a node (AWS p3dn); the share of the wire as h200's"),
        ),
        Cluster(
            name="v100-jean-zay",
            device=V100,
            devices_per_node=4,
            inside=_NVLINK_2,
            between=_network(
                100,
                share=54 / 400,
                source="Jean Zay: 4 Omni-Path links of 100 Gb/s for 4 V100; 54 of 400 Gb/s a node, the best of an "
                "all-reduce over 16 nodes (bigscience experiments/bandwidth/n16_32gb_all_reduce_bench.txt)",
            ),
        ),
        Cluster(
            name="a100",
            device=A100,
            devices_per_node=8,
            inside=_NVLINK_3,
            between=_network(200, share=0.9, source="DGX A100: 8 HDR InfiniBand links of 200 Gb/s a node; " + _REACHED),
        ),
        Cluster(
            name="a100-40gb",
            device=A100_40,
            devices_per_node=8,
            inside=_NVLINK_3,
            between=_network(200, share=0.9, source="as a100"),
        ),
        Cluster(
            name="a100-40gb-efa",
            device=A100_40,
            devices_per_node=8,
            inside=_NVLINK_3,
            between=_network(50, share=0.73, source="400 Gb/s a node (AWS p4d); the share of the wire as h200's"),
        ),
        Cluster(
            name="a100-efa",
            device=A100,
            devices_per_node=8,
            inside=_NVLINK_3,
            between=_network(50, share=0.73, source="400 Gb/s a node (AWS p4de); the share of the wire as h200's"),
        ),
        Cluster(
            name="a100-800g",
            device=A100,
            devices_per_node=8,
            inside=_NVLINK_3,
            between=_network(100, share=0.9, source="800 Gb/s a node; " + _REACHED),
        ),
        Cluster(
            name="a100-jean-zay",
            device=A100,
            devices_per_node=8,
            inside=_NVLINK_3,
            between=_network(
                50,
                share=135 / 400,
                source="Jean Zay: 4 Omni-Path links of 100 Gb/s for 8 A100 (bigscience tr11-176B-ml/README.md); 135 of "
                "400 Gb/s a node measured in 2021 and 2022 (bigscience experiments/README.md, stas00/ml-engineering "
                "network/README.md)",
            ),
        ),
        Cluster(
            name="h100",
            device=H100,
            devices_per_node=8,
            inside=_NVLINK_4,
            between=_network(400, share=0.9, source="DGX H100: 8 NDR InfiniBand links of 400 Gb/s a node; " + _REACHED),
        ),
        Cluster(
            name="h100-800g",
            device=H100,
            devices_per_node=8,
            inside=_NVLINK_4,
            between=_network(100, share=0.9, source="800 Gb/s a node; " + _REACHED),
        ),
        Cluster(
            name="h100-tcpx",
            device=H100,
            devices_per_node=8,
            inside=_NVLINK_4,
            between=_network(
                100,
                share=70.87 / 100,
                ramp=_RAMP_TCPX,
                source="Google A3 High: 4 links of 200 Gb/s a node over GPUDirect-TCPX; 70.9 of 100 GB/s of 512 MiB",
            ),
        ),
        Cluster(
            name="h100-1600g",
            device=H100,
            devices_per_node=8,
            inside=_NVLINK_4,
            between=_network(200, share=0.9, source="Google A3 Mega: 8 links of 200 Gb/s a node; " + _REACHED),
        ),
        Cluster(
            name="h100-500w",
            device=H100_500W,
            devices_per_node=8,
            inside=_NVLINK_4,
            between=_network(
                400, share=0.9, source="Grand Teton: 400 Gb/s a device over RoCE (torchtitan's benchmarks); " + _REACHED
            ),
        ),
        Cluster(
            name="h200",
            device=H200,
            devices_per_node=8,
            inside=_NVLINK_4,
            between=_network(
                400,
                share=0.73,
                source="8 links of 400 Gb/s a node; 0.73 of the wire measured on 4 EFA nodes (stas00/ml-engineering "
                "network/README.md)",
            ),
        ),
        Cluster(
            name="h200-4",
            device=H200,
            devices_per_node=4,
            inside=_NVLINK_4,
            between=_network(400, share=0.73, source="4 devices a node, each with a link of its own; as h200"),
        ),
    )
}
"""Clusters by name. `a100`, `h100` and `h200` are the makers' own nodes."""
