"""Whether a probe fails now and then by itself, whoever is tested. Pure.

[Note: the probe's own failures]
A probe may print rubbish in one of eight tries of everybody, or its members may not always meet: then failures spread
over all members, and parts explain those only by one fault for each. Against it speak the passed tries of the others.
So all explanations by parts are weighed against one more: all failures are the probe's, of each member or of each set
of two or more, in any share of the tries between that of chance and one half.

Against a part that always fails its prior counts: a few tests tell such a part, and its author has seen the probe pass.
Against parts that fail now and then the likeliest share is taken, with all the prior that those parts have together.
What those explain is then a likelihood ratio against each share: of probes that fail in any share of the tries at most
1 - CONFIDENCE ever accuse such a part, whatever the priors are, and however often one looks (Ville 1939; Wasserman,
Ramdas and Balakrishnan 2020, "Universal inference").
"""

import math
from collections import Counter

import numpy as np

from emberward.doctor._search import SPURIOUS

SHARES = np.geomspace(SPURIOUS, 0.5, 250)
"""A probe's share of tries that fail: 2.5% from one to the next."""
TRIED = 20
"""So many tries passed when its author tried it. Of our own choosing."""
_PRIOR = TRIED * np.log1p(-SHARES) - np.logaddexp.reduce(TRIED * np.log1p(-SHARES)) - math.log(2)


class Tally:
    """Passed and failed tries by the size of the set."""

    def __init__(self) -> None:
        self._passes: Counter[int] = Counter()
        self._fails: Counter[int] = Counter()

    def learn(self, size: int, *, passed: bool, tries: int) -> None:
        """Takes in a test."""
        if passed:
            self._passes[size] += tries
        else:
            self._fails[size] += 1

    def totals(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Passed tries and failures: of single devices, and of larger sets."""
        alone = self._passes[1], self._fails[1]
        return alone, (self._passes.total() - alone[0], self._fails.total() - alone[1])

    def likelihoods(self, *, by_sets: bool) -> np.ndarray:
        """For each of SHARES the logarithm of how likely these tests are if all failures are the probe's.

        `by_sets`: of each set of two or more, else of each member. As with parts, passes count without chance.
        """
        sizes = sorted(self._passes.keys() | self._fails.keys())
        hits = np.array([[int(size > 1) if by_sets else size] for size in sizes])
        passing = hits * np.log1p(-SHARES)
        failing = np.log(1 - (1 - SPURIOUS) * np.exp(passing))
        passes, fails = (np.array([found[size] for size in sizes]) for found in (self._passes, self._fails))
        total: np.ndarray = passes @ passing + fails @ failing
        return total

    def evidence(self) -> tuple[float, float]:
        """The logarithms of P(these tests | a probe that fails now and then), and of that with the likeliest share."""
        found = np.concatenate([self.likelihoods(by_sets=by_sets) for by_sets in (False, True)])
        return float(np.logaddexp.reduce(np.tile(_PRIOR, 2) + found)), float(found.max())

    def one_in(self) -> tuple[int, bool]:
        """The n for which a probe that fails in one of n tries is likeliest, and whether that is by sets of two."""
        found = {by_sets: self.likelihoods(by_sets=by_sets) for by_sets in (False, True)}
        by_sets = bool(found[True].max() > found[False].max())
        return round(1 / SHARES[found[by_sets].argmax()]), by_sets
