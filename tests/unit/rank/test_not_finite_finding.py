"""The finding of a step that was skipped."""

import math

from emberward.engine import StepTotals
from emberward.findings import Severity
from emberward.rank._not_finite import MAX_TOLD, not_finite_finding
from emberward.recipe import ComputeType


def finding(*, is_finite=False, num_skipped=1, compute=ComputeType.BF16):
    totals = StepTotals(
        loss_sum=math.inf, num_tokens=64.0, grad_norm=math.nan, num_zeros=0.0, is_finite=is_finite, num_stops=0
    )
    return not_finite_finding(totals, step=7, num_skipped=num_skipped, compute=compute, loss_scale=1.0)


def test_a_skipped_step_is_a_warning_that_says_what_was_seen():
    found = finding()
    assert (found.code, found.severity, found.phase.step) == ("R101", Severity.WARNING, 7)
    assert found.message == "step 8 was skipped: its loss or gradient is not finite; no parameter was changed"
    assert found.evidence == ("1 skipped so far; bf16, loss scale 1",)
    assert found.next == "look at grad_norm before it in metrics.jsonl; a lower optim.lr or a longer warm-up"


def test_in_fp16_it_is_no_alarm():
    assert finding(compute=ComputeType.FP16).severity is Severity.NOTICE


def test_a_finite_step_says_nothing_and_many_skipped_ones_are_bounded():
    assert finding(is_finite=True) is None
    assert finding(num_skipped=MAX_TOLD) is not None
    assert finding(num_skipped=MAX_TOLD + 1) is None
