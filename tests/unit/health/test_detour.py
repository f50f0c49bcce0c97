"""Which samples and which rate a step has after a rewind."""

import pytest

from emberward.health import Detour, rate_factor, skipped_before

ONE = Detour(number=1, step=10, consumed_samples=80, from_step=14, skip_samples=32, lr_scale=0.5, lr_steps=4)
TWO = Detour(number=2, step=20, consumed_samples=160, from_step=21, skip_samples=8)


@pytest.mark.parametrize(("consumed", "skipped"), [(0, 0), (72, 0), (80, 32), (152, 32), (160, 40), (800, 40)])
def test_samples_after_a_detour_lie_further_on(consumed, skipped):
    assert skipped_before((ONE, TWO), consumed) == skipped


@pytest.mark.parametrize(("step", "factor"), [(9, 1.0), (10, 0.5), (13, 0.5), (14, 1.0), (20, 1.0)])
def test_the_rate_is_scaled_for_as_many_steps_as_were_said(step, factor):
    assert rate_factor((ONE, TWO), step) == factor


def test_without_detours_nothing_changes():
    assert skipped_before((), 100) == 0
    assert rate_factor((), 100) == 1.0


def test_overlapping_scales_multiply():
    again = Detour(number=2, step=12, consumed_samples=96, from_step=13, lr_scale=0.1, lr_steps=10)
    assert rate_factor((ONE, again), 12) == pytest.approx(0.05)


def test_a_detour_is_written_and_read():
    assert Detour.from_json(ONE.to_json()) == ONE
    assert ONE.text() == (
        "rewound from step 14 to 10, skips the 32 samples after the first 80 trained, learning rate x 0.5 for 4 steps"
    )
    assert Detour(number=1, step=10, consumed_samples=80, from_step=14).text() == "rewound from step 14 to 10"
