"""How many tries clear a device of a fault that shows now and then. Pure.

[Note: when a device is cleared]
A fault that shows in a share of the tries is told from none by a sequential test of the likelihood ratio: each passed
try multiplies it by 1 - rate, each failed test that nothing explains by P(fail | fault) / SPURIOUS, and the device is
cleared once it is at most MISS. Of the devices with such a fault a share MISS at most is cleared, whatever the priors
are (Wald 1945, "Sequential tests of statistical hypotheses", section 3.2). A fixed number of tries would clear one that
failed in them twice, as chance explains two failures best.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from emberward.doctor._belief import PRIORS, Belief
from emberward.doctor._faults import CONSTANT, Cluster, Part
from emberward.doctor._search import SPURIOUS

RAREST = 0.02
MISS = 0.01
"""The share of devices with such a fault that are cleared, at most."""


def needed_tries(rates: Mapping[float, float], fails: int = 0) -> int:
    """The passed tries that clear a device of a fault with one of these rates, each with its share.

    The least n with sum of share x (1 - rate)^n x (P(fail | rate) / SPURIOUS)^fails <= MISS, at most what RAREST needs.
    `fails`: the failed tests with it that nothing explains. 228 for RAREST, 44 for 1 in 10, 7 for 1 in 2, 1 for what
    always shows; a failure costs 151 more for RAREST.
    """
    logs = [(math.log(share) + fails * _failure(rate), math.log1p(-rate)) for rate, share in rates.items() if share]
    most = math.ceil((math.log(MISS) - fails * _failure(RAREST)) / math.log1p(-RAREST))
    enough = (n for n in range(1, most) if sum(math.exp(start + n * step) for start, step in logs) <= MISS)
    return next(enough, most)


def _failure(rate: float) -> float:
    """The logarithm of how much likelier a failed test is with a fault of this rate than without."""
    return math.log((1 - (1 - SPURIOUS) * (1 - rate)) / SPURIOUS)


NEEDED_TRIES = needed_tries({RAREST: 1.0})
"""228."""


def tries_left(
    belief: Belief,
    settled: Collection[Part],
    clusters: Iterable[Cluster],
    still_open: Sequence[Cluster],
    tried: Mapping[int, int],
) -> dict[int, int]:
    """How many tries each device of `tried` needs still, beside those that it has passed; 0 of one that is cleared.

    Where parts are settled, of faults as rare as theirs, one try where those always show; where none is, and for
    devices of failures that are still open, of RAREST. `clusters`: all failures.
    """
    fails = _unexplained(belief, settled)
    in_doubt = {number for cluster in still_open for trial in cluster.failed for number in trial.devices}
    found = [cluster.rates(part) for cluster in clusters for part in settled]
    faint = [each for each in found if each and max(each, key=lambda rate: each[rate]) <= CONSTANT]
    counts = {0, *fails.values()}
    beside = {times: max((needed_tries(rates, times) for rates in faint), default=1) for times in counts}
    rarest = {times: needed_tries({RAREST: 1.0}, times) for times in counts}
    needed = {n: (beside if settled and n not in in_doubt else rarest)[fails[n]] for n in tried}
    return {n: max(needed[n] - passed, 0) for n, passed in tried.items()}


def _unexplained(belief: Belief, settled: Collection[Part]) -> Counter[int]:
    """The failed tests with each device that no settled part explains."""
    found: Counter[int] = Counter()
    scopes = {part: next(iter(PRIORS[part.kind])) for part in settled}
    for trial in belief.failed_trials():
        if not any(belief.parts.exposure(part, scope, trial.devices, trial.links) for part, scope in scopes.items()):
            found.update(dict.fromkeys(trial.devices, trial.fails))
    return found
