"""Links and clusters of the hardware table, each with its source. See [Note: not fitted]."""

from emberward.perf._devices import (
    A100,
    A100_40,
    A100_PCIE,
    B200,
    B300,
    GB200,
    GH200,
    H100,
    H100_500W,
    H200,
    MI250X,
    MI300X,
    MI325X,
    MI355X,
    V100,
)
from emberward.perf._hardware import Cluster, Link

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


_RAMP_B200 = (
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

_PCIE_4 = Link(
    bytes_per_s=0.8 * 31e9,
    all_reduce_bytes_per_s=0.8 * 31e9,
    latency_s=40e-6,
    ramp=_RAMP,
    source="PCIe 4 x16: 31 GB/s a direction, of which the file's rule of 0.8 is taken; ramp and latency as H200's",
)
_NVLINK_5 = Link(
    bytes_per_s=682.2e9,
    all_reduce_bytes_per_s=845.67e9,
    latency_s=40e-6,
    ramp=_RAMP_B200,
    source="stas00/ml-engineering network/README.md: 8 B200, by ring without the switch's sums, all-reduce with them",
)
_XGMI_2 = Link(
    bytes_per_s=80e9,
    all_reduce_bytes_per_s=80e9,
    latency_s=40e-6,
    ramp=_RAMP,
    source="AMD Instinct MI250: links of 50 GB/s a direction (rocm.docs.amd.com, gpu-arch/mi250); two of them at 0.8 "
    "(assumed)",
)
_XGMI_3 = Link(
    bytes_per_s=312.9e9,
    all_reduce_bytes_per_s=312.9e9,
    latency_s=40e-6,
    ramp=_RAMP,
    direct_links=7,
    source="stas00/ml-engineering network/README.md: all-reduce of 4 GiB on 8 MI300X, 47.7 GB/s on 2",
)
_XGMI_4 = Link(
    bytes_per_s=76.5 / 64 * 312.9e9,
    all_reduce_bytes_per_s=76.5 / 64 * 312.9e9,
    latency_s=40e-6,
    ramp=_RAMP,
    direct_links=7,
    source="as MI300X's, by the links' stated rates: 76.5 and 64 GB/s (the same file)",
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
        Cluster(
            name="a100-pcie",
            device=A100_PCIE,
            devices_per_node=8,
            inside=_PCIE_4,
            between=_network(25, share=0.9, source="200 Gb/s a node of 8 (assumed); " + _REACHED),
        ),
        Cluster(
            name="gh200",
            device=GH200,
            devices_per_node=4,
            inside=_NVLINK_4,
            between=_network(200, share=0.9, source="4 links of 200 Gb/s a node of 4 (Alps, JUPITER); " + _REACHED),
        ),
        Cluster(
            name="b200",
            device=B200,
            devices_per_node=8,
            inside=_NVLINK_5,
            between=_network(400, share=0.9, source="DGX B200: 8 links of 400 Gb/s a node; " + _REACHED),
        ),
        Cluster(
            name="b300",
            device=B300,
            devices_per_node=8,
            inside=_NVLINK_5,
            between=_network(800, share=0.9, source="DGX B300: 8 links of 800 Gb/s a node; " + _REACHED),
        ),
        Cluster(
            name="gb200-nvl72",
            device=GB200,
            devices_per_node=72,
            inside=_NVLINK_5,
            between=_network(400, share=0.9, source="one link of 400 Gb/s a device; " + _REACHED),
        ),
        Cluster(
            name="mi250x",
            device=MI250X,
            devices_per_node=8,
            inside=_XGMI_2,
            between=_network(100, share=0.9, source="LUMI: 4 Slingshot links of 200 Gb/s for 8 dies; " + _REACHED),
        ),
        Cluster(
            name="mi300x",
            device=MI300X,
            devices_per_node=8,
            inside=_XGMI_3,
            between=_network(400, share=0.9, source="8 links of 400 Gb/s a node; " + _REACHED),
        ),
        Cluster(
            name="mi325x",
            device=MI325X,
            devices_per_node=8,
            inside=_XGMI_3,
            between=_network(400, share=0.9, source="as mi300x"),
        ),
        Cluster(
            name="mi355x",
            device=MI355X,
            devices_per_node=8,
            inside=_XGMI_4,
            between=_network(400, share=0.9, source="as mi300x"),
        ),
    )
}
"""Clusters by name. `a100`, `h100` and `h200` are the makers' own nodes."""
