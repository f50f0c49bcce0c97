"""Spikes: the gradient norm leads the loss, so an alarm on it comes before the peak.

[Note: spike rule]
A spike begins when the gradient norm is above `ratio` running medians *and* the step before it was raised already
(above RAISED medians). One step alone, however high, is a bump: the runs that we know have many, clip them, and go on.
The loss has a rule of its own, for runs whose clipping hides the norm: it is above its median by half of that and by
LOSS_SIGMAS robust deviations, twice running or together with a raised norm. It is over after CALM_STEPS ordinary steps.

BLOOM-176B, iterations 31214 to 31219: norms 0.242, 0.947, 2.39, 15.9, 145, 960; losses 2.20, 2.22, 2.60, 2.24, 2.35,
5.10 (its public log). The rule fires at 31216, three iterations before the loss's peak.
The median is over ordinary steps alone: a spike must not teach the rule that spikes are ordinary.
"""

import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from emberward.findings import Finding, FindingPhase, Severity, observed
from emberward.health._lateness import spread

WINDOW = 64
"""Ordinary steps whose median is the measure of the gradient norm."""
LOSS_WINDOW = 16
"""Ordinary steps that measure the loss: few, since a young run's loss falls fast."""
MIN_STEPS = 16
"""Ordinary steps before the rule judges at all."""
RAISED = 2.0
"""Medians above which a gradient norm is raised."""
LOSS_RATIO = 1.5
LOSS_SIGMAS = 8.0
CALM_STEPS = 8
MAX_SPIKE_STEPS = 200
"""Steps after which a spike that does not end is told as a new level, and measured anew."""


class SpikeTurn(StrEnum):
    """What a step changed: a spike began, is over, or did not end and is the new level."""

    BEGAN = "began"
    OVER = "over"
    STAYED = "stayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikeSeen:
    """A turn at `step`, which counts finished steps; `first_step` is where the spike began.

    `norm_median` and `loss_median` are those of ordinary steps; the peaks are the highest values of the spike so far.
    """

    turn: SpikeTurn
    step: int
    first_step: int
    grad_norm: float
    loss: float
    norm_median: float
    loss_median: float
    norm_peak: float
    loss_peak: float
    is_by_norm: bool
    """Whether the gradient norm began it, or the loss."""


class SpikeWatch:
    """Sees the numbers of one step after another. Pure: it reads no clock and no file, and equal numbers give equal
    turns, so that every rank that sees a step's totals decides alike."""

    def __init__(self, *, ratio: float) -> None:
        self.ratio = ratio
        self._norms: deque[float] = deque(maxlen=WINDOW)
        self._losses: deque[float] = deque(maxlen=LOSS_WINDOW)
        self._was_norm_raised = False
        self._was_loss_high = False
        self._first_step: int | None = None
        self._is_by_norm = True
        self._num_calm = 0
        self._norm_peak = 0.0
        self._loss_peak = 0.0

    @property
    def is_in_spike(self) -> bool:
        """Whether a spike has begun that is not over."""
        return self._first_step is not None

    def see(self, *, step: int, loss: float, grad_norm: float) -> SpikeSeen | None:
        """What this step turned, None when nothing. Give finite numbers of each finished step that was not skipped."""
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            return None
        if len(self._norms) < MIN_STEPS:
            self._learn(loss, grad_norm)
            return None
        norm_median, loss_median = statistics.median(self._norms), statistics.median(self._losses)
        is_raised = grad_norm > RAISED * norm_median
        is_high = self._is_loss_high(loss, loss_median)
        turn: SpikeTurn | None = None
        if self._first_step is None:
            by_norm = grad_norm > self.ratio * norm_median and self._was_norm_raised
            by_loss = is_high and (is_raised or self._was_loss_high)
            if by_norm or by_loss:
                turn, self._first_step, self._num_calm = SpikeTurn.BEGAN, step, 0
                self._norm_peak, self._loss_peak, self._is_by_norm = grad_norm, loss, by_norm
            else:
                self._learn(loss, grad_norm)
        else:
            self._norm_peak, self._loss_peak = max(self._norm_peak, grad_norm), max(self._loss_peak, loss)
            self._num_calm = 0 if is_raised or is_high else self._num_calm + 1
            if self._num_calm >= CALM_STEPS:
                turn = SpikeTurn.OVER
            elif step - self._first_step >= MAX_SPIKE_STEPS:
                turn = SpikeTurn.STAYED
        self._was_norm_raised, self._was_loss_high = is_raised, is_high
        if turn is None:
            return None
        assert self._first_step is not None, "a turn has a spike"
        seen = SpikeSeen(
            turn=turn,
            step=step,
            first_step=self._first_step,
            grad_norm=grad_norm,
            loss=loss,
            norm_median=norm_median,
            loss_median=loss_median,
            norm_peak=self._norm_peak,
            loss_peak=self._loss_peak,
            is_by_norm=self._is_by_norm,
        )
        if turn is not SpikeTurn.BEGAN:
            self._first_step = None
        if turn is SpikeTurn.STAYED:
            self._norms.clear()
            self._losses.clear()
        return seen

    def _learn(self, loss: float, grad_norm: float) -> None:
        self._norms.append(grad_norm)
        self._losses.append(loss)

    def _is_loss_high(self, loss: float, median: float) -> bool:
        return loss > LOSS_RATIO * median and loss > median + LOSS_SIGMAS * spread(self._losses)

    def state(self) -> dict[str, Any]:
        """What `load_state` takes back, as JSON: a run that resumes judges as one that was never interrupted."""
        return {
            "norms": list(self._norms),
            "losses": list(self._losses),
            "was_norm_raised": self._was_norm_raised,
            "was_loss_high": self._was_loss_high,
            "first_step": self._first_step,
            "is_by_norm": self._is_by_norm,
            "num_calm": self._num_calm,
            "norm_peak": self._norm_peak,
            "loss_peak": self._loss_peak,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes back what `state` gave. Raises KeyError when it gave something else."""
        self._norms = deque(state["norms"], maxlen=WINDOW)
        self._losses = deque(state["losses"], maxlen=LOSS_WINDOW)
        self._was_norm_raised, self._was_loss_high = state["was_norm_raised"], state["was_loss_high"]
        self._first_step, self._num_calm = state["first_step"], state["num_calm"]
        self._norm_peak, self._loss_peak = state["norm_peak"], state["loss_peak"]
        self._is_by_norm = state["is_by_norm"]


def spike_finding(seen: SpikeSeen, *, save_before: int | None) -> Finding:
    """R103 when a spike began, R104 when it ended or stayed. `save_before` is the step of the save kept from before."""
    kept = "no save from before it is kept" if save_before is None else f"the save of step {save_before} is kept"
    ordinary = f"ordinary steps: gradient norm {seen.norm_median:.4g}, loss {seen.loss_median:.4f} (medians)"
    rewind = "" if save_before is None else f"emberward train RECIPE --rewind {save_before} --skip-samples N"
    severity = Severity.WARNING
    ruled_out: tuple[str, ...] = ()
    match seen.turn:
        case SpikeTurn.BEGAN:
            code, message = "R103", f"a spike begins at step {seen.step}: {_first_sign(seen)}"
            next = f"let it pass (most do), or {rewind or 'lower optim.lr'}"
            if seen.is_by_norm:
                ruled_out = ("a single step above the limit: the step before it was raised as well",)
        case SpikeTurn.OVER:
            code, severity = "R104", Severity.NOTICE
            message = (
                f"the spike of step {seen.first_step} is over at step {seen.step}: "
                f"its peaks were gradient norm {seen.norm_peak:.4g} and loss {seen.loss_peak:.4f}"
            )
            next = "nothing; compare evaluations from before and after it"
        case SpikeTurn.STAYED:
            code, next = "R104", rewind or "lower optim.lr and start anew"
            message = (
                f"the spike of step {seen.first_step} did not end in {MAX_SPIKE_STEPS} steps: "
                f"gradient norm {seen.grad_norm:.4g} and loss {seen.loss:.4f} are measured as the new level"
            )
    return observed(
        code,
        message,
        severity=severity,
        phase=FindingPhase(step=seen.step - 1),
        evidence=(ordinary, kept),
        ruled_out=ruled_out,
        next=next,
    )


def _first_sign(seen: SpikeSeen) -> str:
    if seen.is_by_norm:
        times = seen.grad_norm / seen.norm_median
        return f"gradient norm {seen.grad_norm:.4g}, {times:.1f} times the median; loss {seen.loss:.4f}"
    return (
        f"loss {seen.loss:.4f}, {seen.loss / seen.loss_median:.1f} times the median; gradient norm {seen.grad_norm:.4g}"
    )
