"""Clusters of the hardware table, each with its source. See [Note: not fitted]."""

from emberward.perf._boards import BOARD_CLUSTERS
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
    MI350X,
    MI355X,
    V100,
)
from emberward.perf._hardware import Cluster
from emberward.perf._links import (
    NVLINK_2,
    NVLINK_3,
    NVLINK_4,
    NVLINK_5,
    NVLINK_GH200,
    PCIE_4,
    RAMP_EFA_1,
    RAMP_TCPX,
    REACHED,
    XGMI_2,
    XGMI_3,
    XGMI_4,
    network,
)

CLUSTERS: dict[str, Cluster] = {
    cluster.name: cluster
    for cluster in (
        Cluster(
            name="v100-dgx2",
            device=V100,
            devices_per_node=16,
            inside=NVLINK_2,
            between=network(50, share=0.9, source="DGX-2: 8 EDR InfiniBand links of 100 Gb/s a node; " + REACHED),
        ),
        Cluster(
            name="v100-efa",
            device=V100,
            devices_per_node=8,
            inside=NVLINK_2,
            between=network(12.5, share=0.73, source="100 Gb/s a node (AWS p3dn); the share of the wire as h200's"),
        ),
        Cluster(
            name="v100-jean-zay",
            device=V100,
            devices_per_node=4,
            inside=NVLINK_2,
            between=network(
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
            inside=NVLINK_3,
            between=network(200, share=0.9, source="DGX A100: 8 HDR InfiniBand links of 200 Gb/s a node; " + REACHED),
        ),
        Cluster(
            name="a100-40gb",
            device=A100_40,
            devices_per_node=8,
            inside=NVLINK_3,
            between=network(200, share=0.9, source="as a100"),
        ),
        Cluster(
            name="a100-40gb-efa",
            device=A100_40,
            devices_per_node=8,
            inside=NVLINK_3,
            between=network(
                50,
                share=0.835,
                ramp=RAMP_EFA_1,
                source="400 Gb/s a node (AWS p4d, p4de); two p4de nodes (aws-samples/awsome-distributed-training)",
            ),
        ),
        Cluster(
            name="a100-efa",
            device=A100,
            devices_per_node=8,
            inside=NVLINK_3,
            between=network(
                50,
                share=0.835,
                ramp=RAMP_EFA_1,
                source="400 Gb/s a node (AWS p4d, p4de); two p4de nodes (aws-samples/awsome-distributed-training)",
            ),
        ),
        Cluster(
            name="a100-800g",
            device=A100,
            devices_per_node=8,
            inside=NVLINK_3,
            between=network(100, share=0.9, source="800 Gb/s a node; " + REACHED),
        ),
        Cluster(
            name="a100-jean-zay",
            device=A100,
            devices_per_node=8,
            inside=NVLINK_3,
            between=network(
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
            inside=NVLINK_4,
            between=network(400, share=0.9, source="DGX H100: 8 NDR InfiniBand links of 400 Gb/s a node; " + REACHED),
        ),
        Cluster(
            name="h100-800g",
            device=H100,
            devices_per_node=8,
            inside=NVLINK_4,
            between=network(100, share=0.9, source="800 Gb/s a node; " + REACHED),
        ),
        Cluster(
            name="h100-tcpx",
            device=H100,
            devices_per_node=8,
            inside=NVLINK_4,
            between=network(
                100,
                share=70.87 / 100,
                ramp=RAMP_TCPX,
                source="Google A3 High: 4 links of 200 Gb/s a node over GPUDirect-TCPX; 70.9 of 100 GB/s of 512 MiB",
            ),
        ),
        Cluster(
            name="h100-1600g",
            device=H100,
            devices_per_node=8,
            inside=NVLINK_4,
            between=network(200, share=0.9, source="Google A3 Mega: 8 links of 200 Gb/s a node; " + REACHED),
        ),
        Cluster(
            name="h100-500w",
            device=H100_500W,
            devices_per_node=8,
            inside=NVLINK_4,
            between=network(
                400, share=0.9, source="Grand Teton: 400 Gb/s a device over RoCE (torchtitan's benchmarks); " + REACHED
            ),
        ),
        Cluster(
            name="h200",
            device=H200,
            devices_per_node=8,
            inside=NVLINK_4,
            between=network(
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
            inside=NVLINK_4,
            between=network(400, share=0.73, source="4 devices a node, each with a link of its own; as h200"),
        ),
        Cluster(
            name="a100-pcie",
            device=A100_PCIE,
            devices_per_node=8,
            inside=PCIE_4,
            between=network(25, share=0.9, source="200 Gb/s a node of 8 (assumed); " + REACHED),
        ),
        Cluster(
            name="gh200",
            device=GH200,
            devices_per_node=4,
            inside=NVLINK_GH200,
            between=network(200, share=0.9, source="4 links of 200 Gb/s a node of 4 (Alps, JUPITER); " + REACHED),
        ),
        Cluster(
            name="b200",
            device=B200,
            devices_per_node=8,
            inside=NVLINK_5,
            between=network(400, share=0.9, source="DGX B200: 8 links of 400 Gb/s a node; " + REACHED),
        ),
        Cluster(
            name="b300",
            device=B300,
            devices_per_node=8,
            inside=NVLINK_5,
            between=network(800, share=0.9, source="DGX B300: 8 links of 800 Gb/s a node; " + REACHED),
        ),
        Cluster(
            name="gb200-nvl72",
            device=GB200,
            devices_per_node=72,
            inside=NVLINK_5,
            between=network(400, share=0.9, source="one link of 400 Gb/s a device; " + REACHED),
        ),
        Cluster(
            name="mi250x",
            device=MI250X,
            devices_per_node=8,
            inside=XGMI_2,
            between=network(100, share=0.9, source="LUMI: 4 Slingshot links of 200 Gb/s for 8 dies; " + REACHED),
        ),
        Cluster(
            name="mi300x",
            device=MI300X,
            devices_per_node=8,
            inside=XGMI_3,
            between=network(400, share=0.9, source="8 links of 400 Gb/s a node; " + REACHED),
        ),
        Cluster(
            name="mi325x",
            device=MI325X,
            devices_per_node=8,
            inside=XGMI_3,
            between=network(400, share=0.9, source="as mi300x"),
        ),
        Cluster(
            name="mi350x",
            device=MI350X,
            devices_per_node=8,
            inside=XGMI_4,
            between=network(400, share=0.9, source="as mi300x"),
        ),
        Cluster(
            name="mi355x",
            device=MI355X,
            devices_per_node=8,
            inside=XGMI_4,
            between=network(400, share=0.9, source="as mi300x"),
        ),
        *BOARD_CLUSTERS,
    )
}
"""Clusters by name. `a100`, `h100` and `h200` are the makers' own nodes."""
