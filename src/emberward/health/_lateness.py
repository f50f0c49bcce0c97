"""Who is waited for: the rank whose own part of a step is longer than its peers', step after step.

[Note: waited for]
Ranks that meet in collectives all end a step together: who is slow to finish tells nothing. So a rank is measured by
its *own* time in each step, that is, what it spent outside of calls: whose own time is longest arrives last and is
waited for. Own times need no common clock. The measure of a step is the median over all ranks (of two ranks, the other
one), so that what slows all is nobody's lateness.

A rank is late when the median of its excess over its last steps is at least MIN_SHARE of a step and MIN_EXCESS_S, lies
MIN_SIGMAS standard errors (of a median, by the median absolute deviation) above nothing, and holds in both halves of
these steps. Medians do not see a single slow step, however slow: a collection of garbage, a late batch, a written log.

Who costs RECENT_SHARE of a step or more is told from MIN_FEW_STEPS steps on, and later from the last MIN_STEPS alone,
when they took RECENT_S: a rank that became slow a minute ago has not been so in both halves of all steps.

A rank is late *periodically* when steps of large excess come at one distance and cost MIN_SHARE of the time in all.
When half of the ranks or more are late, the measure itself is in doubt and nobody is named.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

MIN_STEPS = 24
"""Steps that make a judgement, half of them for each half."""
MIN_FEW_STEPS = 10
"""Steps that make one for a rank that costs RECENT_SHARE of a step or more."""
MAX_STEPS = 128
"""Newest steps that are judged."""
MIN_WATCHED_S = 4.0
RECENT_S = 12.0
RECENT_SHARE = 0.2
MIN_SHARE = 0.025
MIN_EXCESS_S = 0.005
"""What a rank that writes the log of a small job takes longer is less than this."""
MIN_SIGMAS = 6.0
EVENT_SHARE = 0.2
"""Excess over the length of a step that makes the step one of a period."""
EVENT_SIGMAS = 10.0
MIN_EVENTS = 5
MAX_ODD_GAPS = 0.1
_SIGMA_OF_MAD = 1.4826
"""Standard deviation of normal noise over its median absolute deviation."""
_MEDIAN_ERROR = 1.2533
"""Standard error of a median over that of a mean, for normal noise: the root of pi / 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRank:
    """A rank that is waited for.

    `excess_s`: how much longer than its peers' its own part of a step takes; when it is late every `period` steps, of
    those steps, the last of which is `last_event`. `step_s`: the length of an ordinary step; `round_s`: from one late
    step to the next. `sigmas`: standard errors of the excess above nothing, or of a period's, times the spread of other
    steps. `first_step`, `last_step`: the steps that were judged.
    """

    rank: int
    excess_s: float
    step_s: float
    round_s: float
    sigmas: float
    num_steps: int
    first_step: int
    last_step: int
    period: int | None = None
    last_event: int | None = None

    @property
    def share(self) -> float:
        """What the lateness costs, over the time of all steps: below 1."""
        return self.excess_s / self.round_s


def late_ranks(own_s: Mapping[int, Mapping[int, float]], lengths_s: Mapping[int, float]) -> tuple[LateRank, ...]:
    """The ranks that are waited for, the costliest first; empty when nobody is, or when too little was seen. Pure.

    `own_s`: rank -> step -> seconds outside of calls, for ranks that run one program; `lengths_s`: step -> its length.
    See [Note: waited for].
    """
    if len(own_s) < 2:
        return ()
    common = set(lengths_s).intersection(*(set(each) for each in own_s.values()))
    steps = sorted(common)[-MAX_STEPS:]
    if len(steps) < MIN_FEW_STEPS or sum(lengths_s[step] for step in steps) < MIN_WATCHED_S:
        return ()
    step_s = statistics.median(lengths_s[step] for step in steps)
    excess = _excess(own_s, steps)
    is_few = len(steps) < MIN_STEPS
    found = _all_always(excess, steps, step_s, RECENT_SHARE if is_few else MIN_SHARE)
    recent = steps[-MIN_STEPS:]
    if not found and not is_few and sum(lengths_s[step] for step in recent) >= RECENT_S:
        recent_s = statistics.median(lengths_s[step] for step in recent)
        found = _all_always({r: v[-MIN_STEPS:] for r, v in excess.items()}, recent, recent_s, RECENT_SHARE)
    if not found and not is_few:
        mean_s = statistics.fmean(lengths_s[step] for step in steps)
        at_times = (_at_times(rank, values, steps, step_s, mean_s) for rank, values in excess.items())
        found = [late for late in at_times if late is not None]
    if 2 * len(found) > len(own_s) or (2 * len(found) == len(own_s) and len(own_s) > 2):
        return ()
    return tuple(sorted(found, key=lambda late: -late.share))


def _excess(own_s: Mapping[int, Mapping[int, float]], steps: Sequence[int]) -> dict[int, list[float]]:
    """Each rank's own time over the measure of the step, for each step."""
    ranks = sorted(own_s)
    if len(ranks) == 2:
        first, second = ranks
        values = [own_s[first][step] - own_s[second][step] for step in steps]
        return {first: values, second: [-value for value in values]}
    found: dict[int, list[float]] = {rank: [] for rank in ranks}
    for step in steps:
        measure = statistics.median(own_s[rank][step] for rank in ranks)
        for rank in ranks:
            found[rank].append(own_s[rank][step] - measure)
    return found


def spread(values: Sequence[float]) -> float:
    """The standard deviation of normal noise with the median absolute deviation of these values."""
    middle = statistics.median(values)
    return _SIGMA_OF_MAD * statistics.median(abs(value - middle) for value in values)


def _all_always(
    excess: Mapping[int, Sequence[float]], steps: Sequence[int], step_s: float, share: float
) -> list[LateRank]:
    """The ranks that are late by at least `share` of a step all along."""
    return [late for r, values in excess.items() if (late := _always(r, values, steps, step_s, share)) is not None]


def _always(rank: int, values: Sequence[float], steps: Sequence[int], step_s: float, share: float) -> LateRank | None:
    least = max(share * step_s, MIN_EXCESS_S)
    half = len(values) // 2
    middle = statistics.median(values)
    if min(middle, statistics.median(values[:half]), statistics.median(values[half:])) < least:
        return None
    error = _MEDIAN_ERROR * spread(values) / math.sqrt(len(values))
    sigmas = middle / max(error, 1e-9)
    if sigmas < MIN_SIGMAS:
        return None
    return LateRank(
        rank=rank,
        excess_s=middle,
        step_s=step_s,
        round_s=step_s,
        sigmas=sigmas,
        num_steps=len(steps),
        first_step=steps[0],
        last_step=steps[-1],
    )


def _at_times(
    rank: int, values: Sequence[float], steps: Sequence[int], step_s: float, mean_s: float
) -> LateRank | None:
    # The lower half alone: of a rank that is late at every other step the upper half is what is looked for.
    lower = sorted(values)[: len(values) // 2]
    middle, sigma = statistics.median(lower), spread(lower)
    least = max(EVENT_SHARE * step_s, middle + EVENT_SIGMAS * sigma, MIN_EXCESS_S)
    events = [(step, value) for step, value in zip(steps, values, strict=True) if value >= least]
    if len(events) < MIN_EVENTS:
        return None
    gaps = [late - early for (early, _), (late, _) in pairwise(events)]
    period = round(statistics.median(gaps))
    slack = 0 if period < 6 else max(1, round(0.1 * period))
    num_odd = sum(abs(gap - period) > slack for gap in gaps)
    if period < 2 or num_odd > MAX_ODD_GAPS * len(gaps):
        return None
    excess_s = statistics.median(value for _, value in events)
    found = LateRank(
        rank=rank,
        excess_s=excess_s,
        step_s=step_s,
        round_s=period * mean_s,
        sigmas=(excess_s - middle) / max(sigma, 1e-9),
        num_steps=len(steps),
        first_step=steps[0],
        last_step=steps[-1],
        period=period,
        last_event=events[-1][0],
    )
    return found if found.share >= MIN_SHARE else None
