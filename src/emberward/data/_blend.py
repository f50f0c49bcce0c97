"""A blend: which source the n-th sample comes from, and which of that source's samples it is."""

import heapq
from fractions import Fraction
from math import gcd, isfinite

import numpy as np
from numpy.typing import NDArray

from emberward.findings import ConfigError

# The period of a blend is at most this; weights that need a longer one are rounded to it. See [Note: blend].
MAX_PERIOD = 1 << 20
BLOCK_SAMPLES = 1 << 14


class Blend:
    """Gives every sample of a weighted blend its source, by the sample's number alone.

    [Note: blend]
    After any n samples, source i has given w_i x n of them, within one sample. For three or more sources the greedy
    rule (Megatron's `build_blending_indices`) does not promise that; Tijdeman's rule does: "The chairman assignment
    problem", Discrete Mathematics 32 (1980), with an error of at most 1 - 1/(2k - 2) for k sources. Weights are
    integers over one denominator, so the order repeats after `period` samples: one period is worked out, in blocks and
    only as far as it is asked for, and any sample is then found at once. Weights of up to six digits keep their exact
    value; others are rounded to multiples of 2**-20, and `weights` says what holds.
    """

    def __init__(self, weights: tuple[float, ...]) -> None:
        """`weights` are positive and relative to each other. Raises C103 for any other."""
        self._parts = _integer_parts(weights)
        self.period = sum(self._parts)
        self._chairs = _Chairs(self._parts)
        self._sources = np.empty(0, dtype=np.int32)
        self._turns = np.empty(0, dtype=np.int64)

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """The share of each source, exactly as used; they add up to 1."""
        return tuple(Fraction(part, self.period) for part in self._parts)

    def locate(self, samples: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each sample number its source, and how many samples of that source come before it. Both [len(samples)].

        Costs a table look-up; the first time that a later part of the period is asked for, it is worked out up to
        there: about a microsecond a sample, at most 2**20 of them.
        """
        if len(self._parts) == 1:
            return np.zeros_like(samples), samples.copy()
        rounds, places = samples // self.period, samples % self.period
        if len(places):
            self._extend(int(places.max()) + 1)
        sources = self._sources[places].astype(np.int64)
        return sources, rounds * np.asarray(self._parts, dtype=np.int64)[sources] + self._turns[places]

    def _extend(self, length: int) -> None:
        """Work out the order up to `length` samples, whole blocks at a time."""
        if length <= len(self._sources):
            return
        length = min(self.period, -(-length // BLOCK_SAMPLES) * BLOCK_SAMPLES)
        chosen, turns = self._chairs.next(length - len(self._sources))
        self._sources = np.concatenate([self._sources, np.asarray(chosen, dtype=np.int32)])
        self._turns = np.concatenate([self._turns, np.asarray(turns, dtype=np.int64)])


class _Chairs:
    """Tijdeman's rule as a queue: turn c of source i may be given from step r on, and the earliest deadline goes first.

    With D the period, W the parts and m = 2k - 2: r = ceil((m c + 1) D / (m W)), deadline (m (c + 1) - 1) D / (m W),
    both for the number of samples given, this one included. All in integers, so that every machine agrees.
    """

    def __init__(self, parts: tuple[int, ...]) -> None:
        self._parts = parts
        self._period = sum(parts)
        self._slack = max(2 * len(parts) - 2, 1)
        self._step = 0
        self._waiting: list[tuple[int, int, int]] = []
        self._ready: list[tuple[int, int, int]] = []
        for source in range(len(parts)):
            heapq.heappush(self._waiting, (self._release(source, 0), source, 0))

    def next(self, count: int) -> tuple[list[int], list[int]]:
        """The sources of the next `count` samples, and each one's turn within its source."""
        chosen, turns = [], []
        for step in range(self._step + 1, self._step + 1 + count):
            while self._waiting and self._waiting[0][0] <= step:
                _, source, turn = heapq.heappop(self._waiting)
                heapq.heappush(self._ready, (self._deadline(source, turn), source, turn))
            _, source, turn = heapq.heappop(self._ready)
            chosen.append(source)
            turns.append(turn)
            heapq.heappush(self._waiting, (self._release(source, turn + 1), source, turn + 1))
        self._step += count
        return chosen, turns

    def _release(self, source: int, turn: int) -> int:
        m = self._slack
        return -(-(m * turn + 1) * self._period // (m * self._parts[source]))

    def _deadline(self, source: int, turn: int) -> int:
        m = self._slack
        return (m * (turn + 1) - 1) * self._period // (m * self._parts[source])


def _integer_parts(weights: tuple[float, ...]) -> tuple[int, ...]:
    """Integers in the ratio of `weights` with a sum of at most about MAX_PERIOD. Raises C103 for a bad weight."""
    for index, weight in enumerate(weights):
        if not isfinite(weight) or weight <= 0:
            raise ConfigError(
                "the weight of a source must be a positive number",
                code="C103",
                where=f"source {index + 1} of {len(weights)}",
                expected="> 0",
                found=repr(weight),
                next="leave the source out to give it no share",
            )
    exact = [Fraction(repr(float(weight))) for weight in weights]
    total = sum(exact)
    shares = [share / total for share in exact]
    common = 1
    for share in shares:
        common = common * share.denominator // gcd(common, share.denominator)
        if common > MAX_PERIOD:
            return _rounded(shares)
    return tuple(int(share * common) for share in shares)


def _rounded(shares: list[Fraction]) -> tuple[int, ...]:
    """Parts of MAX_PERIOD by largest remainder; none is 0, which the largest part pays for."""
    parts = [max(1, int(share * MAX_PERIOD)) for share in shares]
    rest = MAX_PERIOD - sum(parts)
    if rest < 0:
        parts[parts.index(max(parts))] += rest
    by_remainder = sorted(range(len(parts)), key=lambda source: parts[source] - shares[source] * MAX_PERIOD)
    for source in by_remainder[: max(rest, 0)]:
        parts[source] += 1
    return tuple(parts)
