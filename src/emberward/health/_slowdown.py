"""Steps that take longer than they did: the change is told within two steps, with its cost.

[Note: slowdown rule]
The level is the median of ordinary steps. Two steps running that are each MIN_SHARE and MIN_SIGMAS robust deviations
above it are a change; one alone is a bump. The deviation is never taken below FLOOR of the level: a run that is very
regular would call a thousandth a change. Two steps back at the level end it.

BLOOM-176B, iterations 42780 to 42784: 105.16, 105.17, 106.25, 110.17, 111.14 s (its public log). The change begins at
42782 with 1%, and the rule fires at 42784, with 4%. It was a node whose own benchmark showed 2.5%.
"""

import statistics
from collections import deque
from dataclasses import dataclass

from emberward.health._lateness import spread

MIN_STEPS = 10
WINDOW = 64
MIN_SHARE = 0.03
MIN_SIGMAS = 6.0
FLOOR = 0.004
"""Least deviation over the level."""
NUM_RUNNING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """A change of the level: from `level_s` to `now_s` a step, first seen at `first_step` and sure at `step`."""

    first_step: int
    step: int
    level_s: float
    now_s: float
    is_over: bool = False

    @property
    def share(self) -> float:
        """How much longer a step takes, over the level."""
        return self.now_s / self.level_s - 1.0


class SlowdownWatch:
    """Sees the length of one step after the other. Pure: equal numbers give equal turns. See [Note: slowdown rule]."""

    def __init__(self) -> None:
        self._ordinary: deque[float] = deque(maxlen=WINDOW)
        self._slow: list[tuple[int, float]] = []
        self._num_back = 0
        self.now: Slowdown | None = None
        """The change that holds."""

    def see(self, *, step: int, step_s: float) -> Slowdown | None:
        """What this step turned: a change that is sure now, or the end of one (`is_over`); else None."""
        if len(self._ordinary) < MIN_STEPS:
            self._ordinary.append(step_s)
            return None
        level = statistics.median(self._ordinary)
        sigma = max(spread(self._ordinary), FLOOR * level)
        is_slow = step_s > level * (1 + MIN_SHARE) and step_s > level + MIN_SIGMAS * sigma
        if not is_slow:
            self._slow.clear()
            self._num_back += 1
            if self.now is None:
                self._ordinary.append(step_s)
            elif self._num_back >= NUM_RUNNING:
                over = Slowdown(first_step=self.now.first_step, step=step, level_s=level, now_s=step_s, is_over=True)
                self.now = None
                return over
            return None
        self._num_back = 0
        self._slow.append((step, step_s))
        if self.now is not None or len(self._slow) < NUM_RUNNING:
            return None
        now_s = statistics.fmean(each for _, each in self._slow[-NUM_RUNNING:])
        self.now = Slowdown(first_step=self._slow[0][0], step=step, level_s=level, now_s=now_s)
        return self.now
