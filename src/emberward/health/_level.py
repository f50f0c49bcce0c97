"""A level that changed for good, in series whose single values say little. Pure.

[Note: change of a level]
The last values of a series, AFTER or MORE_AFTER of them, are held against the up to BEFORE ones before them. They are
another level when their median, and that of each half of them, is higher by at least what counts, and the medians
differ by MIN_SIGMAS standard errors (of a median, by the median absolute deviation, as in [Note: waited for]). Medians
see no save, no collection of garbage and no heavy tail. Where the change lies is the place after which the sum of the
values' clipped distances from the middle between both levels is greatest: Page's cumulated sum (Biometrika 41, 1954),
in which no value counts for more than one.
"""

import math
import statistics
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MIN_BEFORE = 10
BEFORE = 64
AFTER = 24
MORE_AFTER = 40
"""Where values differ by more: the error of a median falls with the root of their number."""
WIDTH = BEFORE + MORE_AFTER
"""Values that are kept."""
EVERY = 4
"""Values after which is looked again: a look takes medians of all."""
MIN_SIGMAS = 6.0
_SIGMA_OF_MAD = 1.4826
"""Standard deviation of normal noise over its median absolute deviation."""
_MEDIAN_ERROR = 1.2533
"""Standard error of a median over that of a mean, for normal noise: the root of pi / 2."""


def level_changes(values: Floats, least: Floats) -> NDArray[np.bool_]:
    """Which columns of `values`, oldest row first, have a higher level in their last rows by `least` or more.

    There are at least AFTER + MIN_BEFORE rows.
    """
    soon = _changes(values, least, AFTER)
    return soon | _changes(values, least, MORE_AFTER) if len(values) >= MORE_AFTER + MIN_BEFORE else soon


def _changes(values: Floats, least: Floats, num: int) -> NDArray[np.bool_]:
    early, late = values[:-num][-BEFORE:], values[-num:]
    before = np.median(early, axis=0)
    since = np.median(late, axis=0)
    halves = [np.median(half, axis=0) for half in (late[: num // 2], late[num // 2 :])]
    grown = np.minimum(since, np.minimum(*halves)) - before
    variance = _spread(early, before) ** 2 / len(early) + _spread(late, since) ** 2 / len(late)
    changed: NDArray[np.bool_] = (grown >= least) & (since - before >= MIN_SIGMAS * _MEDIAN_ERROR * np.sqrt(variance))
    return changed


def _spread(values: Floats, middle: Floats) -> Floats:
    spread: Floats = _SIGMA_OF_MAD * np.median(np.abs(values - middle), axis=0)
    return spread


def first_of_change(values: Floats) -> int:
    """The index of the first value of the higher level, at which most of the last AFTER are."""
    middle = (float(np.median(values[:-AFTER])) + float(np.median(values[-AFTER // 2 :]))) / 2
    spread = float(_spread(values[:-AFTER], np.median(values[:-AFTER], axis=0)))
    unit = max(spread, abs(float(np.median(values[-AFTER // 2 :])) - middle), math.ulp(1.0))
    sums = np.cumsum(np.clip((values - middle) / unit, -1.0, 1.0)[::-1])[::-1]
    return int(np.argmax(sums[1:])) + 1


def is_back(newest: Sequence[float], *, before: float, since: float) -> bool:
    """Whether the last values are nearer to the level before the change than to the one since."""
    return statistics.median(newest[-AFTER:]) < (before + since) / 2
