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
    Peak(pattern="A100", tflops=312.0, source="NVIDIA A100 datasheet: 312 dense, 624 with sparsity"),
)


def peak_of(device_name: str) -> Peak | None:
    """The peak for bf16 or fp16 of a device with this driver name (``NVIDIA H200``); None when we know of none.

    There is none for float32: matrix products then run at a rate that depends on whether TF32 is allowed.
    """
    return next((peak for peak in PEAKS if re.search(rf"\b{peak.pattern}\b", device_name, re.IGNORECASE)), None)
