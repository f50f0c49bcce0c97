"""Steps that take longer than they did: the change is told within two steps, with its cost.

[Note: slowdown rule]
The level is the median of ordinary steps. Two steps running that are each MIN_SHARE and MIN_SIGMAS robust deviations
above it, by amounts of which the less is MIN_ALIKE of the greater or more, are a change; one alone is a bump, and so
are a save and the step after it. The deviation is never taken below FLOOR of the level: a run that is very
regular would call a thousandth a change. Two steps that are nearer to the level than to the change end it, or, when
it is AFTER steps old, as many whose median is.

Where bumps are frequent, two may follow each other by chance: as many running steps make a change as happen by chance
once in 1 / MAX_CHANCE steps, if each is slow as often as the last MAX_SEEN were.

Where steps differ so much that no single one stands out, a change is seen by medians: see [Note: change of a level].

BLOOM-176B, iterations 42780 to 42784: 105.16, 105.17, 106.25, 110.17, 111.14 s (its public log). The change begins at
42782 with 1%, and the rule fires at 42784, with 4%. It was a node whose own benchmark showed 2.5%.
"""

import math
import statistics
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from emberward.health._lateness import spread
from emberward.health._level import AFTER, EVERY, MIN_BEFORE, WIDTH, first_of_change, is_back, level_changes

MIN_STEPS = 10
WINDOW = 64
MIN_SHARE = 0.03
MIN_SIGMAS = 6.0
FLOOR = 0.004
"""Least deviation over the level."""
NUM_RUNNING = 2
MIN_ALIKE = 0.5
MAX_CHANCE = 1e-6
MAX_SEEN = 256
BESIDE_STEPS = 2
"""How far from the first step of a change something may be to be told beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A rank's own part of a step, in seconds: in the steps before a change and in those from it on."""

    rank: int
    before_s: float
    now_s: float

    @property
    def grown_s(self) -> float:
        """How much longer it takes now."""
        return self.now_s - self.before_s


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownRanks:
    """Of `num_known` ranks those whose own part of a step grew by most of a change, the most first.

    See [Note: who became slower].
    """

    members: tuple[Growth, ...] = ()
    num_known: int = 0

    @property
    def culprits(self) -> tuple[int, ...]:
        """Those that are waited for since, ascending; nobody when more than half grew alike."""
        named = 2 * len(self.members) <= self.num_known
        return tuple(sorted(each.rank for each in self.members)) if named else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """A change of the level: from `level_s` to `now_s` a step, first seen at `first_step` and sure at `step`.

    `grown`: whose own parts grew by most of it.
    """

    first_step: int
    step: int
    level_s: float
    now_s: float
    is_over: bool = False
    grown: GrownRanks = GrownRanks()

    @property
    def share(self) -> float:
        """How much longer a step takes, over the level."""
        return self.now_s / self.level_s - 1.0


class SlowdownWatch:
    """Sees the length of one step after the other. Pure: equal numbers give equal turns. See [Note: slowdown rule]."""

    def __init__(self) -> None:
        self._ordinary: deque[float] = deque(maxlen=WINDOW)
        self._slow: list[tuple[int, float]] = []
        self._was_slow: deque[bool] = deque(maxlen=MAX_SEEN)
        self._num_back = 0
        self._newest: deque[tuple[int, float]] = deque(maxlen=WIDTH)
        self._num_seen = 0
        self._is_by_median = False
        self.now: Slowdown | None = None
        """The change that holds."""

    def see(self, *, step: int, step_s: float) -> Slowdown | None:
        """What this step turned: a change that is sure now, or the end of one (`is_over`); else None."""
        self._num_seen += 1
        self._newest.append((step, step_s))
        if self.now is not None:
            return self._end(self.now, step, step_s)
        return self._begin_at_once(step, step_s) or self._begin_by_median(step)

    def _begin_at_once(self, step: int, step_s: float) -> Slowdown | None:
        """By single steps that stand out."""
        if len(self._ordinary) < MIN_STEPS:
            self._ordinary.append(step_s)
            return None
        level = statistics.median(self._ordinary)
        is_long = step_s > level * (1 + MIN_SHARE)
        if not is_long or step_s <= level + MIN_SIGMAS * max(spread(self._ordinary), FLOOR * level):
            self._was_slow.extend([*[True] * len(self._slow), False])
            self._slow.clear()
            self._ordinary.append(step_s)
            return None
        self._slow.append((step, step_s))
        num = self._num_running()
        running = [each for _, each in self._slow[-num:]]
        if len(running) < num or min(running) - level < MIN_ALIKE * (max(running) - level):
            return None
        first = self._slow[-num][0]
        self._slow.clear()
        self.now = Slowdown(first_step=first, step=step, level_s=level, now_s=statistics.median(running))
        self._is_by_median = False
        return self.now

    def _num_running(self) -> int:
        """How many slow steps running are no chance."""
        often = sum(self._was_slow) / max(len(self._was_slow), 1)
        return NUM_RUNNING if often == 0 else max(NUM_RUNNING, math.ceil(math.log(MAX_CHANCE) / math.log(often)))

    def _begin_by_median(self, step: int) -> Slowdown | None:
        if self._num_seen % EVERY or len(self._newest) < MIN_BEFORE + AFTER:
            return None
        values = np.array([[seconds] for _, seconds in self._newest])
        level = float(np.median(values[:-AFTER]))
        if not level_changes(values, np.array([MIN_SHARE * level]))[0]:
            return None
        first = first_of_change(values[:, 0])
        self.now = Slowdown(
            first_step=self._newest[first][0],
            step=step,
            level_s=float(np.median(values[:first])),
            now_s=float(np.median(values[first:])),
        )
        self._is_by_median = True
        return self.now

    def _end(self, change: Slowdown, step: int, step_s: float) -> Slowdown | None:
        middle_s = (change.level_s + change.now_s) / 2
        self._num_back = self._num_back + 1 if step_s < middle_s else 0
        since = [seconds for number, seconds in self._newest if number >= change.first_step]
        is_old = self._is_by_median or len(since) >= AFTER
        if (
            self._num_seen % EVERY or not is_back(since, before=change.level_s, since=change.now_s)
            if is_old
            else self._num_back < NUM_RUNNING
        ):
            return None
        self.now, self._num_back = None, 0
        self._newest.clear()
        return replace(change, step=step, now_s=step_s, is_over=True)
