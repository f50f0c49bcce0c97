"""The line of a step, letter for letter."""

import pytest

from emberward.report import step_line

# Source: the public log of the BLOOM-176B training (BigScience, chronicles of the 176B training, March 2022).
BLOOM = [
    (
        {
            "step": 12695, "consumed_samples": 9841584, "consumed_tokens": 20155564032, "step_s": 105.22,
            "lr": 5.969e-05, "global_batch_size": 2048, "loss": 2.463556, "grad_norm": 0.174, "num_zeros": 0,
            "skipped": 0, "nan": 0, "samples_per_s": 19.463, "tflops": 149.02,
        },
        " iteration 12695/ 115311 | consumed samples: 9841584 | consumed tokens: 20155564032 | elapsed time per "
        "iteration (s): 105.22 | learning rate: 5.969E-05 | global batch size: 2048 | lm loss: 2.463556E+00 | grad "
        "norm: 0.174 | num zeros: 0.0 | number of skipped iterations: 0 | number of nan iterations: 0 | samples per "
        "second: 19.463 | TFLOPs: 149.02 |",
    ),
    (
        {
            "step": 31214, "consumed_samples": 47768496, "consumed_tokens": 97829879808, "step_s": 106.46,
            "lr": 5.279e-05, "global_batch_size": 2048, "loss": 2.198845, "grad_norm": 0.242, "num_zeros": 0.0,
            "skipped": 0, "nan": 0, "samples_per_s": 19.238, "tflops": 147.29,
        },
        " iteration 31214/ 115311 | consumed samples: 47768496 | consumed tokens: 97829879808 | elapsed time per "
        "iteration (s): 106.46 | learning rate: 5.279E-05 | global batch size: 2048 | lm loss: 2.198845E+00 | grad "
        "norm: 0.242 | num zeros: 0.0 | number of skipped iterations: 0 | number of nan iterations: 0 | samples per "
        "second: 19.238 | TFLOPs: 147.29 |",
    ),
    (
        {
            "step": 31219, "consumed_samples": 47778736, "consumed_tokens": 97850851328, "step_s": 106.36,
            "lr": 5.279e-05, "global_batch_size": 2048, "loss": 5.098124, "grad_norm": 960.351, "num_zeros": 0,
            "skipped": 0, "nan": 0, "samples_per_s": 19.256, "tflops": 147.43,
        },
        " iteration 31219/ 115311 | consumed samples: 47778736 | consumed tokens: 97850851328 | elapsed time per "
        "iteration (s): 106.36 | learning rate: 5.279E-05 | global batch size: 2048 | lm loss: 5.098124E+00 | grad "
        "norm: 960.351 | num zeros: 0.0 | number of skipped iterations: 0 | number of nan iterations: 0 | samples per "
        "second: 19.256 | TFLOPs: 147.43 |",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("metrics", "line"), BLOOM, ids=[str(metrics["step"]) for metrics, _ in BLOOM])
def test_the_line_is_that_of_the_bloom_training(metrics, line):
    assert step_line(metrics, steps=115311) == line


def test_what_was_not_measured_is_not_a_number():
    line = step_line({"step": 3, "loss": 2.0, "grad_norm": None, "tflops": None, "skipped": 1, "nan": 0}, steps=9)
    assert line == (
        " iteration 3/ 9 | consumed samples: n/a | consumed tokens: n/a | elapsed time per iteration (s): n/a | "
        "learning rate: n/a | global batch size: n/a | lm loss: 2.000000E+00 | grad norm: n/a | num zeros: n/a | "
        "number of skipped iterations: 1 | number of nan iterations: 0 | samples per second: n/a | TFLOPs: n/a |"
    )


def test_a_loss_that_is_no_number_is_shown_as_it_is():
    assert " | lm loss: NAN | grad norm: inf | " in step_line(
        {"loss": float("nan"), "grad_norm": float("inf")}, steps=1
    )
