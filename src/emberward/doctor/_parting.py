"""Whether the network has parted: what two groups of hosts have between them fails, and no part of them. Pure.

[Note: a parted network]
With more than a few hosts there are too many ways to part them to weigh each one. Hosts are listed by rack, and what
parts them (an uplink, a switch, a fabric) leaves runs of that list together: a cut is a run [a, b) of the hosts, of
which 2 at least stand on either side. A parted network explains what crosses it and nothing else: a failure that does
not cross has a cause of its own with a cut as without. Weighed is therefore how much likelier the tests are with each
cut than without one. Each test adds one value to the rectangles of (a, b) that it does not cross, so that all runs are
weighed at once, by sums over an array of differences (Crow 1984, summed-area tables). Failures may have a cause in
common, as where one device fails with everybody: their sum is then too much, and `Belief.parted` puts in its place what
the likeliest explanations are worth, with the cut and without.
"""

import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from emberward.doctor._fleet import Set

PRIOR = 2e-3
"""That the network has parted; half of it for one boundary in the list, half for two."""
ERROR = 1e-3
"""A test that crosses passes so rarely."""
MAX_PAIRS = 64
"""Pairs of one round that tell where the boundaries are."""
WITNESSES = 4
UNSURE = 1e-3
MOST_RUNS = 2000
"""The likeliest runs, by which the next tests are chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parted:
    """The logarithm of how much likelier all runs together make the tests, at most; the likeliest with their shares."""

    evidence: float
    runs: tuple[tuple[int, int], ...]
    shares: np.ndarray

    def side(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """The hosts of the likeliest run."""
        a, b = self.runs[0]
        return tuple(hosts[a:b])


class Parting:
    """Counts the tests of hosts by their places in the list, and weighs all runs."""

    def __init__(self, num_hosts: int) -> None:
        self._size = num_hosts
        self._rows: list[tuple[int, int, int, int, float]] = []
        self._steps = np.zeros((0, 0))
        self._base = 0.0
        self._judged: Parted | None = None

    def passed(self, places: Sequence[int]) -> None:
        """Takes in a test of the hosts at these places, two or more, in order."""
        self._learn(places, -math.log(ERROR))

    def failed(self, places: Sequence[int], *, cause: float) -> None:
        """The same of one that failed. `cause`: that it does for another reason; once for each set."""
        self._learn(places, math.log(cause))

    def _learn(self, places: Sequence[int], value: float) -> None:
        self._base -= value
        edges = [-1, *places, self._size]
        for low, high in pairwise(edges):
            self._rows.append((low + 1, high, low + 1, high, value))
        self._rows.append((0, places[0], places[-1] + 1, self._size, value))
        self._judged = None

    def weigh(self) -> Parted:
        """All runs, by what the tests say."""
        if self._judged is None:
            self._judged = self._weigh()
        return self._judged

    def _weigh(self) -> Parted:
        size = self._size
        if not len(self._steps):
            self._steps = np.zeros((size + 2, size + 2))
        a0, a1, b0, b1 = np.array([row[:4] for row in self._rows], dtype=int).reshape(-1, 4).T
        values = np.array([row[4] for row in self._rows])
        for rows, columns, sign in ((a0, b0, 1), (a1 + 1, b0, -1), (a0, b1 + 1, -1), (a1 + 1, b1 + 1, 1)):
            np.add.at(self._steps, (rows, columns), sign * values)
        self._rows = []
        scores = self._steps.cumsum(0).cumsum(1)[:size, : size + 1] + self._base
        starts, ends = np.arange(size)[:, None], np.arange(size + 1)[None, :]
        length = ends - starts
        is_cut = (length >= 2) & (size - length >= 2) & (ends < size)
        scores[0] += math.log(PRIOR / 2 / size)
        scores[1:] += math.log(PRIOR / size**2)
        flat = np.where(is_cut, scores, -np.inf).ravel()
        top = float(flat.max())
        total = float(np.exp(flat - top).sum())
        likely = np.flatnonzero(flat > top - 12)
        likely = likely[np.argsort(-flat[likely], kind="stable")][:MOST_RUNS]
        runs = tuple((int(place) // (size + 1), int(place) % (size + 1)) for place in likely)
        return Parted(evidence=top + math.log(total), runs=runs, shares=np.exp(flat[likely] - top) / total)

    def pairs(self, free: Collection[int], rng: random.Random) -> list[Set]:
        """Disjoint pairs of places among `free` that tell whether the network has parted, and where.

        Each place whose side is open with one whose side is known, WITNESSES between the sides, one within.
        """
        found = self.weigh()
        inside = np.zeros((len(found.runs), self._size), dtype=bool)
        for row, (a, b) in enumerate(found.runs):
            inside[row, a:b] = True
        chance = dict(enumerate(found.shares / found.shares.sum() @ inside))
        unsure = [place for place in sorted(free) if UNSURE < chance[place] < 1 - UNSURE]
        sides = [
            [place for place in sorted(free) if place not in unsure and bool(chance[place] > 0.5) is inner]
            for inner in (True, False)
        ]
        chosen: list[Set] = []
        for place in unsure[:: max(len(unsure) // MAX_PAIRS, 1)][:MAX_PAIRS]:
            if known := [side for side in sides if side]:
                # Of either side: where hosts are bad it fails with both.
                side = rng.choice(known)
                mate = side.pop(rng.randrange(len(side)))
                chosen.append((min(place, mate), max(place, mate)))
        if not chosen:
            mixed = rng.sample(unsure, len(unsure))
            chosen += list(zip(mixed[::2], mixed[1::2], strict=False))[:MAX_PAIRS]
        small, large = (rng.sample(side, len(side)) for side in sorted(sides, key=len))
        # Two of the smaller side pass where the network has parted, and fail where its hosts are bad.
        num = 2 if len(small) > 3 or (len(small) > 1 and rng.random() < 0.5) else 0
        ends = [*zip(small[num:], large[:WITNESSES], strict=False), *([(small[0], small[1])] if num else [])]
        return [*chosen, *((min(a, b), max(a, b)) for a, b in ends)]
