"""What a run says of a step whose loss or gradient was not finite."""

from emberward.engine import StepTotals
from emberward.findings import Cause, Certainty, Finding, FindingPhase, Kind, Severity
from emberward.recipe import ComputeType

MAX_TOLD = 20
"""Skipped steps of a run that get a finding; ``metrics.jsonl`` counts all of them."""


def not_finite_finding(
    totals: StepTotals, *, step: int, num_skipped: int, compute: ComputeType, loss_scale: float
) -> Finding | None:
    """R101 for a skipped step, counted from 0; None when it was finite, or when MAX_TOLD were told before.

    A notice in fp16, whose loss scale is found by such steps; else a warning. `num_skipped` counts this one.
    """
    if totals.is_finite or num_skipped > MAX_TOLD:
        return None
    is_fp16 = compute is ComputeType.FP16
    return Finding(
        code="R101",
        severity=Severity.NOTICE if is_fp16 else Severity.WARNING,
        kind=Kind.SPIKE,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=f"step {step + 1} was skipped: its loss or gradient is not finite; no parameter was changed",
        phase=FindingPhase(step=step),
        evidence=(f"{num_skipped} skipped so far; {compute.value}, loss scale {loss_scale:g}",),
        next=(
            "single ones need nothing: the loss scale adapts"
            if is_fp16
            else "look at grad_norm before it in metrics.jsonl; a lower optim.lr or a longer warm-up"
        ),
    )
