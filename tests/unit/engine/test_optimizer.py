"""The loss scale of fp16, and which parameters decay."""

from emberward.engine._optimizer import LossScale
from emberward.recipe import ComputeType, PrecisionConfig


def scale_after(*steps: bool, window: int = 3) -> list[float]:
    scale = LossScale.first(PrecisionConfig(compute=ComputeType.FP16, loss_scale=1024.0, loss_scale_window=window))
    scales = []
    for is_finite in steps:
        scale = scale.after(is_finite=is_finite)
        scales.append(scale.scale)
    return scales


def test_it_halves_on_overflow_and_doubles_after_a_window_of_good_steps():
    assert scale_after(False, True, True, True, True, True, True) == [512, 512, 512, 1024, 1024, 1024, 2048]
    assert scale_after(True, True, False, True, True) == [1024, 1024, 512, 512, 512]


def test_it_never_falls_below_one():
    assert min(scale_after(*[False] * 20)) == 1.0


def test_bf16_and_fp32_are_never_scaled():
    for compute in (ComputeType.BF16, ComputeType.FP32):
        scale = LossScale.first(PrecisionConfig(compute=compute))
        assert scale.scale == scale.after(is_finite=False).scale == 1.0
