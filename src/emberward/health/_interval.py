"""How often to save: Young's and Daly's interval from this job's own figures, and what each cause has cost.

Young 1974, "A first order approximation to the optimum checkpoint interval", CACM 17(9); Daly 2006, "A higher order
estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), equation 37.
"""

import math
from dataclasses import dataclass


def optimum_interval_s(*, save_s: float, mtbf_s: float) -> float:
    """Seconds of work between saves that lose least: Daly's higher order form, Young's sqrt(2 C M) - C and a little.

    `save_s` is what a save costs training (C), `mtbf_s` the mean time between failures (M); both above 0.
    """
    if save_s >= 2 * mtbf_s:
        return mtbf_s
    part = save_s / (2 * mtbf_s)
    return math.sqrt(2 * save_s * mtbf_s) * (1 + math.sqrt(part) / 3 + part / 9) - save_s


def lost_share(*, interval_s: float, save_s: float, mtbf_s: float, restart_s: float = 0.0) -> float:
    """The share of the machine's time that is lost, to first order: C / W + W / 2M + R / M.

    `restart_s` is everything between a failure and the first step after it: detection, start, load.
    """
    return save_s / interval_s + interval_s / (2 * mtbf_s) + restart_s / mtbf_s


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCosts:
    """What a job has measured of itself. Seconds; `restart_s` from a failure to the first step after it.

    `num_failures` counts attempts that ended by failure within `run_s` of running.
    """

    save_s: float
    step_s: float
    run_s: float
    num_failures: int
    restart_s: float
    interval_steps: int | None

    @property
    def mtbf_s(self) -> float:
        """Mean time between failures; without any failure the time that it ran, which is the least it can well be."""
        return self.run_s / max(self.num_failures, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalAdvice:
    """The best interval and what it would cost, beside what the present one costs (None: it saves only at the end)."""

    costs: JobCosts
    best_s: float
    best_steps: int
    best_share: float
    present_s: float | None
    present_share: float | None

    def text(self) -> str:
        """One line for people."""
        source = (
            f"one failure in {_hours(self.costs.mtbf_s)}"
            if self.costs.num_failures
            else f"one failure in {_hours(self.costs.run_s)} (none was seen in that time)"
        )
        steps = "1 step" if self.best_steps == 1 else f"{self.best_steps} steps"
        best = f"best every {_hours(self.best_s)} ({steps}), which costs {self.best_share:.2%} of the time"
        if self.present_s is None or self.present_share is None:
            now = "now only at the end"
        else:
            now = f"now every {_hours(self.present_s)}, which costs {self.present_share:.2%}"
        work = f"{self.costs.save_s:.3g} s a save, {self.costs.restart_s:.3g} s to restart"
        return f"{best}; {now}; for {source}, {work}"


def advise_interval(costs: JobCosts) -> IntervalAdvice | None:
    """The advice for a job; None when it has no step, no save or no running time measured."""
    if costs.save_s <= 0 or costs.step_s <= 0 or costs.run_s <= 0:
        return None
    best_steps = max(1, round(optimum_interval_s(save_s=costs.save_s, mtbf_s=costs.mtbf_s) / costs.step_s))

    def share(interval_s: float) -> float:
        return lost_share(interval_s=interval_s, save_s=costs.save_s, mtbf_s=costs.mtbf_s, restart_s=costs.restart_s)

    best_s = best_steps * costs.step_s
    present_s = None if costs.interval_steps is None else costs.interval_steps * costs.step_s
    return IntervalAdvice(
        costs=costs,
        best_s=best_s,
        best_steps=best_steps,
        best_share=share(best_s),
        present_s=present_s,
        present_share=None if present_s is None else share(present_s),
    )


def _hours(seconds: float) -> str:
    """``35 s``, ``116 min``, ``2.9 h``, ``7.0 d``: two figures that a person compares."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 4 * 86400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} d"
