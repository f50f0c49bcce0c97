"""The findings of a step that was skipped, and of the operation that made it so."""

import math

import pytest

from emberward.engine import NotFinite, StepTotals
from emberward.events import Stage
from emberward.findings import Severity
from emberward.rank._not_finite import MAX_TOLD, first_finding, is_worth_inspecting, not_finite_finding
from emberward.recipe import ComputeType


def totals(*, is_finite):
    return StepTotals(
        loss_sum=math.inf, num_tokens=64.0, grad_norm=math.nan, num_zeros=0.0, is_finite=is_finite, num_stops=0
    )


def finding(*, is_finite=False, num_skipped=1, compute=ComputeType.BF16):
    return not_finite_finding(
        totals(is_finite=is_finite), step=7, num_skipped=num_skipped, compute=compute, loss_scale=1.0
    )


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


def test_what_came_first_in_the_data_s_way_is_told_and_the_rest_is_evidence():
    def made(module, operation="mm", micro_batch=0, stage=Stage.FORWARD):
        return NotFinite(module=module, operation=operation, micro_batch=micro_batch, stage=stage)

    found = {
        0: made("blocks.0.mlp", micro_batch=1),
        2: made("blocks.3.mlp", micro_batch=0, stage=Stage.BACKWARD),
        3: made("blocks.2.mlp.up"),
    }
    first = first_finding(found, step=6)
    assert first.message == (
        "the first value of step 7 that is not finite came from mm of blocks.2.mlp.up "
        "in the forward of micro-batch 0, on rank 3"
    )
    assert (first.culprit_ranks, first.evidence[0]) == ((3,), "what mm read there was finite")
    assert first.evidence[1:] == (
        "rank 0: mm of blocks.0.mlp in the forward of micro-batch 1",
        "rank 2: mm of blocks.3.mlp in the backward of micro-batch 0",
    )
    parameter = first_finding({**found, 5: made("final_norm.weight", None, None, None)}, step=6)
    assert parameter.message == "parameter final_norm.weight was not finite before step 7, on rank 5"
    end = first_finding({1: made("the step", "_foreach_norm", None, Stage.OPTIMIZER)}, step=6)
    assert end.message.endswith("came from _foreach_norm of the step at the step's end, on rank 1")


@pytest.mark.parametrize(
    ("compute", "loss_scale", "is_finite", "expected"),
    [
        (ComputeType.FP32, 1.0, False, True),
        (ComputeType.BF16, 1.0, False, True),
        (ComputeType.FP16, 65536.0, False, False),
        (ComputeType.FP16, 1.0, False, True),
        (ComputeType.FP32, 1.0, True, False),
    ],
)
def test_a_search_is_not_made_while_fp16_finds_its_scale(compute, loss_scale, is_finite, expected):
    assert is_worth_inspecting(totals(is_finite=is_finite), compute=compute, loss_scale=loss_scale) is expected
