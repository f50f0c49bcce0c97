"""Whether a probe fails now and then by itself, whoever is tested. Pure.

[Note: the probe's own failures]
A probe may print rubbish in one of eight tries of everybody, or its members may not always meet: then failures spread
over all members, and parts explain those only by one fault for each. Against it speak the passed tries of the others.
So no part is accused while all failures may be such with more than a few percent: for each member, or for each set
of two or more, in a share of the tries (RATES), weighed with a prior of its own against what parts explain. One that
fails in 1 of 10 tries among sound ones is told by those: 140 passed tries of them are 4e-7 likely if everybody did.
"""

import math
from collections import Counter

from emberward.doctor._search import SPURIOUS

RATES = {0.1: 0.1, 0.02: 0.1}
"""A probe's share of tries that fail, and how often beside a probe that always fails. Of our own choosing: who wrote a
probe tried it, but perhaps not often; what fails in every other try is seen at once."""
MOST_TRIES = 1000


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

    def likelihood(self, rate: float, *, by_sets: bool) -> float:
        """The logarithm of P(these tests, if all failures are the probe's): each member's, or each set of two's."""
        total = 0.0
        for size in self._passes.keys() | self._fails.keys():
            passing = math.log1p(-SPURIOUS) + (int(size > 1) if by_sets else size) * math.log1p(-rate)
            total += self._passes[size] * passing + self._fails[size] * math.log(-math.expm1(passing))
        return total

    def weights(self, prior: float) -> list[float]:
        """The logarithms of what each share of RATES weighs, none without a failure; `prior`: that it always fails."""
        if not self._fails:
            return []
        return [
            math.log(prior * share) + self.likelihood(rate, by_sets=by_sets)
            for rate, share in RATES.items()
            for by_sets in (False, True)
        ]

    def one_in(self) -> tuple[int, bool]:
        """The n for which a probe that fails in one of n tries is likeliest, and whether that is by sets of two."""
        places = [(n, by_sets) for n in range(2, MOST_TRIES) for by_sets in (False, True)]
        return max(places, key=lambda place: self.likelihood(1 / place[0], by_sets=place[1]))
