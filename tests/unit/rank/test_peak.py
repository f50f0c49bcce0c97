"""The peak that a run's utilisation is divided by."""

import pytest

from emberward.rank._session import _peak_tflops
from emberward.recipe import ComputeType


@pytest.mark.parametrize(
    ("device", "compute", "tflops"),
    [
        ("NVIDIA H200", ComputeType.BF16, 989.0),
        ("NVIDIA A100-SXM4-40GB", ComputeType.FP16, 312.0),
        ("NVIDIA H200", ComputeType.FP32, None),
        ("cpu", ComputeType.BF16, None),
    ],
)
def test_a_float32_run_is_not_divided_by_the_peak_of_16_bits(device, compute, tflops):
    assert _peak_tflops(device, compute) == tflops
