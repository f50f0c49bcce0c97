"""When a saved state gives the loss that it gave, when it nearly does, and when it does not."""

import dataclasses
from pathlib import Path

import pytest

from emberward.checkpoint import Probe
from emberward.engine import StepTotals
from emberward.findings import EmberwardError
from emberward.rank._probing import judge, probe_of
from emberward.recipe import ComputeType

NUMERICS = {"layout": {"dp": 2}, "compute": "fp32", "is_deterministic": True, "torch": "2.13.0"}
SAVED = Probe(step=6, first_sample=96, num_samples=16, tokens=256.0, loss=1.9439, grad_norm=0.5, numerics=NUMERICS)
PATH = Path("step-00000006")


def found(**changed) -> Probe:
    return dataclasses.replace(SAVED, **changed)


@pytest.mark.parametrize(
    "other",
    [
        found(),
        found(loss=1.9439 * (1 + 5e-6), numerics={**NUMERICS, "layout": {"dp": 1}}),
        found(loss=1.9439 * (1 + 5e-6), numerics={**NUMERICS, "torch": "2.14.0"}),
        found(loss=1.0, first_sample=112),
        found(loss=1.0, num_samples=32),
        found(loss=1.0, tokens=255.0),
        found(loss=1.0, numerics={**NUMERICS, "compute": "bf16"}),
    ],
    ids=["equal", "another layout", "another torch", "other samples", "more samples", "other tokens", "another type"],
)
def test_what_is_no_alarm(other):
    assert judge(SAVED, other, path=PATH) is None


def test_bits_that_differ_where_none_should_are_a_notice():
    finding = judge(SAVED, found(loss=1.9439 * (1 + 5e-6)), path=PATH)
    assert (finding.code, finding.severity.value) == ("K107", "notice")
    assert "equal to rounding, on the same layout and versions" in finding.message
    loose = dataclasses.replace(SAVED, numerics={**NUMERICS, "is_deterministic": False})
    assert judge(loose, dataclasses.replace(loose, loss=1.9439 * (1 + 5e-6)), path=PATH) is None


def test_the_drift_of_a_reshape_that_nobody_could_explain_is_refused():
    """BLOOM-176B: 1.9439 before its checkpoint was reshaped, 1.9633 after."""
    with pytest.raises(EmberwardError) as caught:
        judge(SAVED, found(loss=1.9633, numerics={**NUMERICS, "layout": {"dp": 1}}), path=PATH)
    assert str(caught.value) == (
        "K107 the state of step 6 gives another loss than when it was saved\n"
        "  where     step-00000006, samples 96 to 111\n"
        "  expected  loss 1.9439, gradient norm 0.5, to 1e-05 and 0.0001 of them\n"
        "  found     loss 1.9633, gradient norm 0.5; changed: layout {'dp': 2} now {'dp': 1}\n"
        "  next      rm step-00000006/probe.json      (if the change is meant: the next start does not compare)"
    )


@pytest.mark.parametrize("compute", [each.value for each in ComputeType])
def test_a_fourth_of_that_drift_is_refused_in_every_number_type(compute):
    numerics = {**NUMERICS, "compute": compute}
    fourth = 1.9439 + (1.9633 - 1.9439) / 4
    with pytest.raises(EmberwardError, match="K107"):
        judge(found(numerics=numerics), found(loss=fourth, numerics=numerics), path=PATH)


@pytest.mark.parametrize("other", [found(grad_norm=0.5 * 1.001), None], ids=["norm", "not finite"])
def test_another_norm_or_no_number_is_refused(other):
    with pytest.raises(EmberwardError, match="K107"):
        judge(SAVED, other, path=PATH)


def test_a_step_that_overflows_in_fp16_is_no_alarm():
    assert judge(found(numerics={**NUMERICS, "compute": "fp16"}), None, path=PATH) is None


def totals(**changed) -> StepTotals:
    values = {
        "loss_sum": 20.0, "num_tokens": 10.0, "grad_norm": 0.5, "num_zeros": 0.0, "is_finite": True, "num_stops": 0,
    }  # fmt: skip
    return StepTotals(**{**values, **changed})


def test_a_step_that_is_not_finite_or_has_no_tokens_is_no_probe():
    def of(found: StepTotals) -> Probe | None:
        return probe_of(found, step=6, first_sample=96, num_samples=16, numerics=NUMERICS)

    assert of(totals(is_finite=False)) is None and of(totals(num_tokens=0.0)) is None
    assert of(totals()) == found(loss=2.0, tokens=10.0)
