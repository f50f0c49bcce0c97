"""Links of the hardware table, each with its source. See [Note: not fitted]."""

from dataclasses import replace

from emberward.perf._hardware import Link

RAMP = (
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

NVLINK_2 = Link(
    bytes_per_s=124e9,
    all_reduce_bytes_per_s=124e9,
    latency_s=40e-6,
    ramp=RAMP,
    source="bigscience experiments/bandwidth/n1_32gb_all_reduce_bench.txt: 990 Gb/s of 4 GB on 4 V100; ramp and "
    "latency as H200's",
)
NVLINK_2_MESH = replace(
    NVLINK_2,
    direct_links=6,
    source="DGX-1: six links a device and no switch, ranks 0 and 1 have one of them (DGX-1 system architecture "
    "whitepaper); all six as Jean Zay's four V100",
)
NVLINK_3 = Link(
    bytes_per_s=234.89e9,
    all_reduce_bytes_per_s=234.89e9,
    latency_s=40e-6,
    ramp=RAMP,
    source="stas00/ml-engineering network/README.md: all-reduce of 16 GiB on 8 A100; ramp and latency as H200's",
)
NVLINK_4 = Link(
    bytes_per_s=361.4e9,
    all_reduce_bytes_per_s=482.26e9,
    latency_s=40e-6,
    ramp=RAMP,
    sums_from=5,
    source="stas00/ml-engineering network/README.md: 8 H200, all-gather by ring, all-reduce in the switch from 5 "
    "devices on; 32 KiB in 40 us",
)

NVLINK_GH200 = replace(
    NVLINK_4,
    all_reduce_bytes_per_s=NVLINK_4.bytes_per_s,
    direct_links=3,
    sums_from=2,
    source="four GH200 without a switch, 150 GB/s a direction between any two (JUPITER's configuration, "
    "apps.fz-juelich.de/jsc/hps/jupiter); all three links as a ring on H200: " + NVLINK_4.source,
)


RAMP_B200 = (
    (2**20, 0.043),
    (2**21, 0.075),
    (2**22, 0.090),
    (2**23, 0.150),
    (2**24, 0.301),
    (2**25, 0.385),
    (2**26, 0.474),
    (2**27, 0.672),
    (2**28, 0.764),
    (2**29, 0.815),
    (2**30, 0.855),
    (2**34, 1.0),
)
"""The same of 8 B200, in the same file."""

PCIE_4 = Link(
    bytes_per_s=0.8 * 31e9,
    all_reduce_bytes_per_s=0.8 * 31e9,
    latency_s=40e-6,
    ramp=RAMP,
    source="PCIe 4 x16: 31 GB/s a direction, of which the file's rule of 0.8 is taken; ramp and latency as H200's",
)
NVLINK_5 = Link(
    bytes_per_s=682.2e9,
    all_reduce_bytes_per_s=845.67e9,
    latency_s=40e-6,
    ramp=RAMP_B200,
    sums_from=6,
    source="stas00/ml-engineering network/README.md: 8 B200, by ring without the switch's sums, all-reduce with them "
    "from 6 devices on",
)
XGMI_2 = Link(
    bytes_per_s=80e9,
    all_reduce_bytes_per_s=80e9,
    latency_s=40e-6,
    ramp=RAMP,
    source="AMD Instinct MI250: links of 50 GB/s a direction (rocm.docs.amd.com, gpu-arch/mi250); two of them at 0.8 "
    "(assumed)",
)
XGMI_3 = Link(
    bytes_per_s=312.9e9,
    all_reduce_bytes_per_s=312.9e9,
    latency_s=40e-6,
    ramp=RAMP,
    direct_links=7,
    source="stas00/ml-engineering network/README.md: all-reduce of 4 GiB on 8 MI300X, 47.7 GB/s on 2",
)
XGMI_4 = Link(
    bytes_per_s=76.5 / 64 * 312.9e9,
    all_reduce_bytes_per_s=76.5 / 64 * 312.9e9,
    latency_s=40e-6,
    ramp=RAMP,
    direct_links=7,
    source="as MI300X's, by the links' stated rates: 76.5 and 64 GB/s (the same file)",
)


RAMP_TCPX = (
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


RAMP_EFA_1 = (
    (2**20, 0.081),
    (2**21, 0.116),
    (2**22, 0.188),
    (2**23, 0.263),
    (2**24, 0.337),
    (2**25, 0.522),
    (2**26, 0.607),
    (2**27, 0.821),
    (2**28, 0.892),
    (2**29, 0.948),
    (2**30, 0.980),
    (2**31, 1.0),
)
"""All-reduce by its bytes between two p4de nodes as shares of that of 2 GiB, at which 41.8 of 50 GB/s of the wire are
in use: aws-samples/awsome-distributed-training, micro-benchmarks/nccl-tests/README.md."""
RAMP_EFA_2 = (
    (2**20, 0.033),
    (2**21, 0.055),
    (2**22, 0.096),
    (2**23, 0.158),
    (2**24, 0.217),
    (2**25, 0.294),
    (2**26, 0.430),
    (2**27, 0.594),
    (2**28, 0.704),
    (2**29, 0.808),
    (2**30, 0.897),
    (2**32, 0.956),
    (2**34, 1.0),
)
"""The same between two p5 nodes, of 16 GiB, in the same file."""


def network(gbit_per_s: float, *, share: float, source: str, ramp: tuple[tuple[int, float], ...] = ()) -> Link:
    """A device's share of a node's network, of which `share` is reached."""
    rate = share * gbit_per_s * 1e9 / 8
    return Link(bytes_per_s=rate, all_reduce_bytes_per_s=rate, latency_s=40e-6, source=source, ramp=ramp)


REACHED = "0.9 of the wire (assumed; nccl-tests between DGX nodes reach 0.9 to 0.95), latency as inside a node"

EFA_1, EFA_2, TCPX = (0.835, RAMP_EFA_1), (0.73, RAMP_EFA_2), (70.87 / 100, RAMP_TCPX)
"""Share of the wire and its rise by size: EFA of 400 Gb/s a node, later EFA (four nodes of H200: ml-engineering), A3
High."""
