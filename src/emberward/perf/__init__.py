"""Explain time: floating-point operations of a step, and how near to a device's peak it came. No torch."""

from emberward.perf._flops import forward_flops_per_token, hardware_tflops, mfu, mfu_text, model_flops_per_token
from emberward.perf._peaks import PEAKS, Peak, peak_of

__all__ = [
    "PEAKS",
    "Peak",
    "forward_flops_per_token",
    "hardware_tflops",
    "mfu",
    "mfu_text",
    "model_flops_per_token",
    "peak_of",
]
