"""Peak rates to divide by: dense 16-bit matrix products, as the maker states them, without sparsity.

The sparse figure is twice the dense one and is the usual mistake in a published utilisation (three issues of
Megatron-LM are that mix-up). A device that is not listed has no peak: better no figure than a wrong one.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """A device's peak in tera-operations a second. `pattern` is sought as whole words in the driver's name for it."""

    pattern: str
    tflops: float
    source: str


# The first pattern found in the name counts, so that the narrower ones stand first.
PEAKS: tuple[Peak, ...] = (
    Peak(pattern="H100 PCIe", tflops=756.0, source="NVIDIA H100 datasheet: 1,513 with sparsity"),
    Peak(pattern="H100 NVL", tflops=835.0, source="NVIDIA H100 datasheet: 1,671 with sparsity"),
    Peak(pattern="H200 NVL", tflops=835.0, source="NVIDIA H200 datasheet: 1,671 with sparsity"),
    Peak(pattern="H100", tflops=989.0, source="NVIDIA H100 datasheet, SXM: 1,979 with sparsity"),
    Peak(pattern="H200", tflops=989.0, source="NVIDIA H200 datasheet, SXM: 1,979 with sparsity"),
    Peak(pattern="V100-PCIE", tflops=112.0, source="NVIDIA V100 datasheet, PCIe: tensor cores in fp16"),
    Peak(pattern="V100", tflops=125.0, source="NVIDIA V100 datasheet, SXM2: tensor cores in fp16"),
    Peak(pattern="GH200", tflops=989.0, source="NVIDIA GH200 datasheet: 1,979 with sparsity"),
    Peak(pattern="GB200", tflops=2500.0, source="NVIDIA GB200 NVL72 datasheet: 5,000 with sparsity"),
    Peak(pattern="B200", tflops=2250.0, source="NVIDIA DGX B200 datasheet: 4,500 with sparsity"),
    Peak(pattern="B300", tflops=2250.0, source="NVIDIA DGX B300 datasheet, as B200"),
    Peak(pattern="MI250X", tflops=191.5, source="AMD Instinct MI250X data sheet: 383 for its two dies"),
    Peak(pattern="MI300X", tflops=1307.4, source="AMD Instinct MI300X data sheet, dense"),
    Peak(pattern="MI325X", tflops=1307.4, source="AMD Instinct MI325X data sheet, dense"),
    Peak(pattern="MI350X", tflops=2306.9, source="AMD Instinct MI350X data sheet, dense"),
    Peak(pattern="MI355X", tflops=2516.6, source="AMD Instinct MI355X data sheet, dense"),
    Peak(pattern="A100", tflops=312.0, source="NVIDIA A100 datasheet: 312 dense, 624 with sparsity"),
)


def peak_of(device_name: str) -> Peak | None:
    """The peak for bf16 or fp16 of a device with this driver name (``NVIDIA H200``); None when we know of none.

    There is none for float32: matrix products then run at a rate that depends on whether TF32 is allowed.
    """
    return next((peak for peak in PEAKS if re.search(rf"\b{peak.pattern}\b", device_name, re.IGNORECASE)), None)
