"""Boards without a switch between them and makers' later variants, with the nodes that they usually come in.

[Note: boards]
Peaks are the makers', dense with sums in float32. The best product is the best of torch.mm of torch.randn from 1024 to
10240 cubed (zzc0721/torch-performance-test-data, database.md at bbb8e24 and issues 78, 79, 124, 126, 127, 140 and 185);
where a board is not in that table its entry says whose share of the peak it has. `usual_share` is that of an A100 in
the same table where nothing else is said: 257 of 264.5 (assumed). A GeForce has no copies from peer to peer: what goes
to another board crosses the host's memory, at half the rate (assumed). All else is as the device's of the same
generation.
"""

from dataclasses import replace

from emberward.perf._devices import A100, GB200, H100, MI250X, V100
from emberward.perf._hardware import BestProduct, Cluster, Device, Generation, Link
from emberward.perf._links import NVLINK_2, NVLINK_3, NVLINK_4, NVLINK_5, XGMI_2, network

_TABLE = "zzc0721/torch-performance-test-data: torch.mm of torch.randn, best of 1024 to 10240 cubed"
_USUAL = 257 / 264.53


def _board(
    like: Device,
    name: str,
    *,
    peak: float,
    best: float,
    sms: int,
    memory_gib: float,
    gb_per_s: float,
    source: str = _TABLE,
    usual: float = _USUAL,
    fp8: float | None = None,
    attention: float = 1.0,
) -> Device:
    """A device like another but for its sizes; `fp8` is its best product in that format, `attention` what fused
    attention reaches over the rates of the other's generation."""
    return replace(
        like,
        name=name,
        pattern=name,
        peak_tflops=peak,
        memory_gib=memory_gib,
        memory_bytes_per_s=gb_per_s * 1e9,
        num_sms=sms,
        best_bf16=BestProduct(tflops=best, m=8192, n=8192, k=8192),
        best_fp8=None if fp8 is None else BestProduct(tflops=fp8, m=8192, n=8192, k=8192),
        usual_share=usual,
        attention=attention,
        sources=("peak, memory and processors: the maker's data sheet", f"best product: {source}", "[Note: boards]"),
    )


_A40_SHARE, _T4_SHARE = 122.29 / 149.7, 41.91 / 65
_LIKE_A40 = "the share of the peak that an A40 reaches, 122 of 150 (assumed)"
_LIKE_T4 = "the share of the peak that the other board of 70 W reaches, T4: 41.9 of 65 (assumed)"
_LIKE_H100 = "the share of the peak that the SXM board reaches (assumed)"

_P100 = _board(V100, "P100", peak=18.7, best=8.82, sms=56, memory_gib=16, gb_per_s=732)
_T4 = _board(V100, "T4", peak=65, best=41.91, sms=40, memory_gib=16, gb_per_s=320)
_TITAN_RTX = _board(V100, "TITAN RTX", peak=130.5, best=66.32, sms=72, memory_gib=24, gb_per_s=672, usual=53.86 / 66.32)
_RTX_2080_TI = _board(
    V100, "RTX 2080 Ti", peak=53.8, best=39.03 * 68 / 46, sms=68, memory_gib=11, gb_per_s=616,
    source="RTX 2080's 39.0 by processors, 68 and 46 (assumed)",
)  # fmt: skip
_V100_PCIE = _board(V100, "V100 PCIe", peak=112, best=101, sms=80, memory_gib=32, gb_per_s=900, usual=88.92 / 101)

_A10 = _board(A100, "A10", peak=125, best=125 * _A40_SHARE, sms=72, memory_gib=24, gb_per_s=600, source=_LIKE_A40)
_A10G = _board(A100, "A10G", peak=70, best=69.47, sms=80, memory_gib=24, gb_per_s=600, usual=66.59 / 69.47)
_A30 = _board(
    A100, "A30", peak=165, best=165 * 252.9 / 312, sms=56, memory_gib=24, gb_per_s=933,
    source="the share of the peak that an A100 PCIe reaches (assumed)",
)  # fmt: skip
_A40 = _board(A100, "A40", peak=149.7, best=122.29, sms=84, memory_gib=48, gb_per_s=696, usual=110.64 / 122.29)
_A6000 = _board(
    A100, "RTX A6000", peak=154.8, best=154.8 * _A40_SHARE, sms=84, memory_gib=48, gb_per_s=768, source=_LIKE_A40
)
_RTX_3090 = _board(A100, "RTX 3090", peak=71, best=76.68, sms=82, memory_gib=24, gb_per_s=936)
_RTX_4090 = _board(
    A100, "RTX 4090", peak=165.2, best=170.06, sms=128, memory_gib=24, gb_per_s=1008, usual=160.17 / 170.06, fp8=340.12
)
_RTX_5090 = _board(
    A100, "RTX 5090", peak=209.5, best=240.05, sms=170, memory_gib=32, gb_per_s=1792, usual=234.89 / 240.05, fp8=480.1
)
_RTX_PRO_6000 = _board(A100, "RTX PRO 6000", peak=503.8, best=417.98, sms=188, memory_gib=96, gb_per_s=1792, fp8=835.96)
_RTX_6000_ADA = _board(
    A100, "RTX 6000 Ada", peak=364.2, best=364.2 * _A40_SHARE, sms=142, memory_gib=48, gb_per_s=960, source=_LIKE_A40,
    fp8=728.5 * _A40_SHARE,
)  # fmt: skip
_L40S = _board(
    A100, "L40S", peak=362, best=362 * _A40_SHARE, sms=142, memory_gib=48, gb_per_s=864, source=_LIKE_A40,
    fp8=733 * _A40_SHARE,
)  # fmt: skip
_L40 = _board(
    A100, "L40", peak=181, best=181 * _A40_SHARE, sms=142, memory_gib=48, gb_per_s=864, source=_LIKE_A40,
    fp8=362 * _A40_SHARE,
)  # fmt: skip
_L4 = _board(A100, "L4", peak=121, best=121 * _T4_SHARE, sms=58, memory_gib=24, gb_per_s=300, source=_LIKE_T4)
_H20 = _board(
    H100, "H20", peak=148, best=141.86, sms=78, memory_gib=96, gb_per_s=4000, fp8=2 * 141.86,
    attention=129.1 / 148 / (617 / 989),
)  # fmt: skip
"""Its products are cut to a seventh, all else that attention needs is not: cuDNN over 2,048 positions without a mask,
heads of 128, reaches 129.1 of 148 TFLOP/s where an H100 reaches 617 of 989 (Dao-AILab/flash-attention issue 1310;
FlashAttention-2 and 3 there gain more and less, 1.55 and 1.35). Taken for all kernels and the backward (assumed)."""
_H100_PCIE = _board(
    H100, "H100 PCIe", peak=756, best=756 * 794.5 / 989, sms=114, memory_gib=80, gb_per_s=2000, source=_LIKE_H100,
    usual=H100.usual_share, fp8=756 * 1402.6 / 989,
)  # fmt: skip
_H100_NVL = _board(
    H100, "H100 NVL", peak=835, best=835 * 794.5 / 989, sms=132, memory_gib=94, gb_per_s=3900, source=_LIKE_H100,
    usual=H100.usual_share, fp8=835 * 1402.6 / 989,
)  # fmt: skip
_GB300 = replace(
    GB200,
    name="GB300 288GB",
    pattern="GB300",
    memory_gib=288.0,
    sources=("NVIDIA GB300 NVL72 datasheet: 2,500 TFLOP/s and 288 GB a device; all else as GB200", *GB200.sources),
)
_MI250 = replace(
    MI250X,
    name="MI250, one of its two dies, 64GB",
    pattern="MI250",
    peak_tflops=181.0,
    num_sms=104,
    best_bf16=replace(MI250X.best_bf16, tflops=MI250X.best_bf16.tflops * 181.0 / 191.5),
    sources=("AMD Instinct MI250 data sheet, halved: 181 TFLOP/s, 104 compute units; else as MI250X", *MI250X.sources),
)
_MI210 = replace(_MI250, name="MI210 64GB", pattern="MI210")


def _pcie(gb_per_s: float, *, has_peers: bool = True) -> Link:
    """A link over the host's bus, of which the rule of 0.8 is taken as for NVLink; half of it without peers."""
    rate = (0.8 if has_peers else 0.4) * gb_per_s * 1e9
    source = f"PCIe x16: {gb_per_s} GB/s a direction, 0.8 of it" + ("" if has_peers else ", through the host's memory")
    return Link(bytes_per_s=rate, all_reduce_bytes_per_s=rate, latency_s=40e-6, ramp=NVLINK_3.ramp, source=source)


PCIE_3, PCIE_5 = _pcie(15.75), _pcie(63.0)
PCIE_4_BOARDS = _pcie(31.5)
_PCIE_4_HOST, _PCIE_5_HOST = _pcie(31.5, has_peers=False), _pcie(63.0, has_peers=False)
_NVLINK_A800, _NVLINK_H800 = (
    replace(
        link,
        bytes_per_s=part * link.bytes_per_s,
        all_reduce_bytes_per_s=part * link.all_reduce_bytes_per_s,
        source=f"400 GB/s a device; else as the full device: {link.source}",
    )
    for link, part in ((NVLINK_3, 400 / 600), (NVLINK_4, 400 / 900))
)


def _node(name: str, device: Device, inside: Link, *, devices: int = 8, gbit_per_s: float = 25.0) -> Cluster:
    """A node of boards; where nothing is known of its network 200 Gb/s for 8 devices."""
    source = f"{gbit_per_s} Gb/s a device (assumed), 0.9 of it"
    between = network(gbit_per_s, share=0.9, source=source)
    return Cluster(name=name, device=device, devices_per_node=devices, inside=inside, between=between)


BOARD_CLUSTERS = (
    _node("p100", _P100, replace(NVLINK_2, bytes_per_s=62e9, all_reduce_bytes_per_s=62e9)),
    _node("t4", _T4, PCIE_3),
    _node("titan-rtx", _TITAN_RTX, PCIE_3),
    _node("rtx-2080-ti", _RTX_2080_TI, PCIE_3),
    _node("v100-pcie", _V100_PCIE, PCIE_3),
    _node("a10", _A10, PCIE_4_BOARDS),
    _node("a10g", _A10G, PCIE_4_BOARDS, gbit_per_s=12.5),
    _node("a30", _A30, PCIE_4_BOARDS),
    _node("a40", _A40, PCIE_4_BOARDS),
    _node("a6000", _A6000, PCIE_4_BOARDS),
    _node("a800", A100, _NVLINK_A800, gbit_per_s=200.0),
    _node("rtx-3090", _RTX_3090, _PCIE_4_HOST),
    _node("rtx-4090", _RTX_4090, _PCIE_4_HOST),
    _node("rtx-5090", _RTX_5090, _PCIE_5_HOST),
    _node("rtx-pro-6000", _RTX_PRO_6000, PCIE_5),
    _node("rtx-6000-ada", _RTX_6000_ADA, PCIE_4_BOARDS),
    _node("l40s", _L40S, PCIE_4_BOARDS),
    _node("l40", _L40, PCIE_4_BOARDS),
    _node("l4", _L4, PCIE_4_BOARDS),
    _node("h20", _H20, NVLINK_4, gbit_per_s=200.0),
    _node("h800", H100, _NVLINK_H800, gbit_per_s=400.0),
    _node("h100-pcie", _H100_PCIE, PCIE_5, gbit_per_s=50.0),
    _node("h100-nvl", _H100_NVL, PCIE_5, gbit_per_s=50.0),
    _node("gb300-nvl72", _GB300, NVLINK_5, devices=72, gbit_per_s=800.0),
    _node("mi250", _MI250, XGMI_2, gbit_per_s=100.0),
    _node("mi210", _MI210, PCIE_4_BOARDS, gbit_per_s=100.0),
)
"""Clusters of boards and later variants. `a800` and `h800` are A100 and H100 with slower links."""

PCIE_LINKS = {
    Generation.AMPERE: PCIE_4_BOARDS,
    Generation.HOPPER: PCIE_5,
    Generation.BLACKWELL: PCIE_5,
    Generation.CDNA: PCIE_4_BOARDS,
}
"""The host's bus by the generation of the devices on it."""
