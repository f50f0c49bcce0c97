"""Devices of the hardware table, each with its sources. See [Note: not fitted]."""

from dataclasses import replace

from emberward.perf._hardware import BestProduct, Device, Generation

_MAMF = "stas00/ml-engineering compute/accelerator/README.md, Maximum Achievable Matmul FLOPS (mean of 100 runs)"
_STREAM = "memory: BabelStream triad on H100, about 0.9 of the stated bandwidth"
_STREAM_A100 = (
    "memory: torch's add, mul and gelu of 1 Gi numbers in bf16 on A100 40GB reach 0.873, 0.894 and 0.843 of the stated "
    "bandwidth (FlagPerf, operation/benchmarks/add, mul, gelu, nvidia/A100_40_SXM), their mean"
)
_USUAL_A100 = (
    "usual_share: 257 TFLOP/s, cuBLAS, 8192 cubed, torch.randn (thonking.ai, Strangely, Matrix Multiplications)"
)
_USUAL_H100 = (
    "usual_share: 716 TFLOP/s, cuBLAS bf16, 8192 cubed, random data (Shankhdhar 2024, Outperforming cuBLAS on H100); "
    "taken for fp8 and for other power limits too (assumed)"
)
_USUAL_B200 = "usual_share: 1420 TFLOP/s, bf16 torch.nn.Linear, 8192 cubed, torch.randn (pytorch/ao pull request 2427)"
_HOST = "host_s: assumed, 10 us for an operator's dispatch in torch and 10 us for the launch and its wait"

_SPREAD_V100 = 0.08 / 5.4
"""Sinha et al. 2022 (SC22, arXiv 2208.11035): performance varies by 8% over a cluster's V100s, between a box plot's
whiskers (entered as known), which are 5.4 standard deviations apart in a normal distribution. Taken for A100 too
(assumed)."""
_SPREAD_H200 = 0.034 / 2.85
"""stas00/ml-engineering compute/accelerator/benchmarks/README.md: sustained bf16 products differ by 3.4% over a node of
8 H200 (4.9% over 8 B200); eight normal draws span 2.85 standard deviations. Taken for H100 too (assumed)."""

_SPREAD_B200 = 0.049 / 2.85
"""The same page: 4.9% over a node of 8 B200."""
_SUSTAINED_A100 = 1200 / 1410
"""liangan1/GPU_travel, performance/flash-attn/README.md: under FlashAttention-2 an A100 falls from 1,410 to about 1,200
MHz at its power limit."""
_SUSTAINED_B200 = 1237 / 1450
"""flashinfer-ai/flashinfer pull request 2899: FlashAttention-4 on B200 falls from 1450 TFLOP/s to 1237 within a hundred
calls, its clock from 1,965 MHz to about 1,580."""
_SUSTAINED_H100 = _SUSTAINED_A100
"""As A100 and B200, which keep 0.85 both (assumed)."""
_OTHERS = "usual_share, memory, attention where nothing else is said: as H100's (assumed)"

V100 = Device(
    name="V100 32GB SXM2",
    pattern="V100",
    peak_tflops=125.0,
    memory_gib=32.0,
    memory_bytes_per_s=0.9e12,
    num_sms=80,
    best_bf16=BestProduct(tflops=101 / 112 * 125, m=8192, n=8192, k=8192),
    best_fp8=None,
    usual_share=97.36 * 112 / (101 * 125),
    memory=0.87,
    clock_share=1.0,
    host_s=20e-6,
    chip_spread=_SPREAD_V100,
    sources=(
        "NVIDIA V100 datasheet: 125 TFLOP/s in fp16, 900 GB/s, 80 processors",
        "best product: cuBLAS fp16, 8192 cubed, about 101 of 112 TFLOP/s on the PCIe board "
        "(forums.developer.nvidia.com 79781); the same share of the SXM2 board's peak (assumed)",
        "usual_share: 97.4 TFLOP/s, torch.mm fp16, 8192 cubed, torch.randn, on a V100-SXM2-16GB "
        "(zzc0721/torch-performance-test-data issue 140)",
        "memory: as the A100's (assumed)",
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
    memory=0.87,
    clock_share=1.0,
    host_s=20e-6,
    chip_spread=_SPREAD_V100,
    attention=_SUSTAINED_A100,
    sources=("NVIDIA A100 datasheet", _MAMF, _USUAL_A100, _STREAM_A100, _HOST),
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
    generation=Generation.HOPPER,
    attention=_SUSTAINED_H100,
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
    generation=Generation.HOPPER,
    attention=_SUSTAINED_H100,
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
    generation=Generation.HOPPER,
    attention=_SUSTAINED_H100,
    is_persistent=True,
    sources=("NVIDIA H200 datasheet", _MAMF, _USUAL_H100, _STREAM, _HOST),
)


GH200 = replace(
    H100,
    name="GH200 96GB",
    pattern="GH200",
    memory_gib=96.0,
    memory_bytes_per_s=4.0e12,
    clock_share=(835 + (580 - 400) / (700 - 400) * (989 - 835)) / 989,
    sources=(
        "NVIDIA GH200 datasheet: 96 GB HBM3, 4 TB/s",
        "clock_share: a module in a node of four has 680 W for both its chips (JUPITER's configuration, "
        "apps.fz-juelich.de/jsc/hps/jupiter), of which Grace takes 100 W (assumed; alone it may take 250 W); 580 W on "
        "the line from the H100 NVL's datasheet (835 at 400 W) to the SXM's (989 at 700 W)",
        _MAMF + ": H100's. The 900 W edition, which comes alone in a node, reaches 828.6 and 1535 in fp8",
        _USUAL_H100,
        _STREAM,
        _HOST,
    ),
)

A100_PCIE = replace(
    A100,
    name="A100 80GB PCIe",
    pattern="A100 80GB PCIe",
    memory_bytes_per_s=1.935e12,
    best_bf16=BestProduct(tflops=252.9, m=2048, n=5120, k=6144),
    sources=("NVIDIA A100 datasheet, PCIe: 1,935 GB/s", _MAMF, _USUAL_A100, _STREAM_A100, _HOST),
)

B200 = Device(
    name="B200 180GB SXM",
    pattern="B200",
    peak_tflops=2250.0,
    memory_gib=180.0,
    memory_bytes_per_s=8.0e12,
    num_sms=148,
    best_bf16=BestProduct(tflops=1745.0, m=1792, n=16128, k=3072),
    best_fp8=BestProduct(tflops=3432.5, m=15360, n=4096, k=3072),
    usual_share=1420 / 1745,
    memory=0.9,
    clock_share=1.0,
    host_s=20e-6,
    chip_spread=_SPREAD_B200,
    generation=Generation.BLACKWELL,
    attention=_SUSTAINED_B200,
    is_persistent=True,
    sources=(
        "NVIDIA DGX B200 datasheet; 148 processors (ml-engineering, training/performance)",
        _MAMF,
        _USUAL_B200,
        _OTHERS,
        _HOST,
    ),
)

B300 = replace(
    B200,
    name="B300 SXM",
    pattern="B300",
    memory_gib=268.0,
    best_bf16=BestProduct(tflops=1769.0, m=12288, n=18432, k=1024),
    best_fp8=BestProduct(tflops=3353.3, m=3072, n=6144, k=7168),
    sources=("NVIDIA HGX B300: 268 GB, entered as known; else as B200", _MAMF, _OTHERS, _HOST),
)

GB200 = replace(
    B200,
    name="GB200 186GB",
    pattern="GB200",
    peak_tflops=2500.0,
    memory_gib=186.0,
    best_bf16=BestProduct(tflops=1822.0, m=4096, n=9728, k=2048),
    best_fp8=BestProduct(tflops=3615.6, m=19456, n=5120, k=1536),
    sources=("NVIDIA GB200 NVL72 datasheet: 2,500 TFLOP/s and 186 GB a device", _MAMF, _OTHERS, _HOST),
)

MI300X = Device(
    name="MI300X 192GB",
    pattern="MI300X",
    peak_tflops=1307.4,
    memory_gib=192.0,
    memory_bytes_per_s=5.3e12,
    num_sms=304,
    best_bf16=BestProduct(tflops=668.4, m=10240, n=15360, k=8192),
    best_fp8=BestProduct(tflops=1273.0, m=10240, n=15360, k=8192),
    usual_share=H100.usual_share,
    memory=0.8,
    clock_share=1.0,
    host_s=20e-6,
    chip_spread=_SPREAD_H200,
    generation=Generation.CDNA,
    sources=(
        "AMD Instinct MI300X data sheet: 1,307 TFLOP/s, 5.3 TB/s, 304 compute units",
        _MAMF + "; fp8: AMD, Measuring Max-Achievable FLOPs, part 2 (entered as known), its shape taken as bf16's",
        "memory: BabelStream on MI300X, about 0.8 of the stated bandwidth (entered as known)",
        _OTHERS,
        _HOST,
    ),
)

MI325X = replace(
    MI300X,
    name="MI325X 256GB",
    pattern="MI325X",
    memory_gib=256.0,
    memory_bytes_per_s=6.0e12,
    best_bf16=BestProduct(tflops=784.9, m=13312, n=10240, k=8192),
    best_fp8=BestProduct(tflops=784.9 / 668.4 * 1273.0, m=13312, n=10240, k=8192),
    sources=("AMD Instinct MI325X data sheet", _MAMF + "; fp8 by MI300X's ratio (assumed)", _OTHERS, _HOST),
)

MI355X = replace(
    MI300X,
    name="MI355X 288GB",
    pattern="MI355X",
    peak_tflops=2516.6,
    memory_gib=288.0,
    memory_bytes_per_s=8.0e12,
    num_sms=256,
    best_bf16=BestProduct(tflops=1565.0, m=12288, n=8192, k=8192),
    best_fp8=BestProduct(tflops=1565.0 / 668.4 * 1273.0, m=12288, n=8192, k=8192),
    sources=("AMD Instinct MI355X data sheet", _MAMF + "; fp8 by MI300X's ratio (assumed)", _OTHERS, _HOST),
)

_SLOWER_CLOCK = 2.2 / 2.4
"""MI350X's highest clock over MI355X's (AMD at Hot Chips 2025)."""
MI350X = replace(
    MI355X,
    name="MI350X 288GB",
    pattern="MI350X",
    peak_tflops=2516.6 * _SLOWER_CLOCK,
    best_bf16=BestProduct(tflops=1565.0 * _SLOWER_CLOCK, m=12288, n=8192, k=8192),
    best_fp8=BestProduct(tflops=1565.0 * _SLOWER_CLOCK / 668.4 * 1273.0, m=12288, n=8192, k=8192),
    sources=("AMD Instinct MI350X data sheet", "best product: MI355X's at the clock's ratio (assumed)", _OTHERS, _HOST),
)

MI250X = replace(
    MI300X,
    name="MI250X, one of its two dies, 64GB",
    pattern="MI250X",
    peak_tflops=191.5,
    memory_gib=64.0,
    memory_bytes_per_s=1.638e12,
    num_sms=110,
    best_bf16=BestProduct(tflops=147.0, m=1024, n=14080, k=16384),
    best_fp8=None,
    sources=(
        "AMD Instinct MI250X data sheet, halved: 191.5 TFLOP/s, 1.64 TB/s, 110 compute units",
        "best product: an earlier edition of the same table (entered as known)",
        _OTHERS,
        _HOST,
    ),
)
