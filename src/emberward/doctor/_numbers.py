"""What the measured values say: noise first, then devices that are slow, and links. Pure.

[Note: slow]
A value counts relative to the median of its round, among members of one kind (see [Note: like with like]), so that what
all have in common cancels. A device's figure is the
median of its rounds, its first left out where there are more (a slow start is no fault). It is slow when its gap to the
median device is at least LEAST_GAP and at least the quantile of Student's t for one error in ALPHA among all
devices (Abramowitz & Stegun 26.7.5), in units of what the noise of its own rounds and the spread of the others
make. Pairs: t_ij = max(a_i, a_j) + l_ij (C4D, arXiv 2406.04594); a device is no slower than what its partners'
median says, and what is left is the link's.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import NormalDist
from typing import TypeVar

from emberward.doctor._fleet import Fleet, Result, Set
from emberward.doctor._kinds import LEAST_ALIKE, Kinds

Key = TypeVar("Key", bound=Hashable)

LEAST_GAP = 0.03
"""Below, a device is not called slow: the spread of sound ones."""
FLOOR = 0.002
"""Least noise that is believed, as a share."""
LEAST_LINK_GAP = 0.1
"""Below, a link is not called slow: pairs of one machine differ by so much."""
ALPHA = 1e-3
MAD_TO_SIGMA = 1.4826
MEDIAN_COST = 1.2533
"""The error of a median is sqrt(pi/2) that of a mean."""
LEAST_ROUNDS = 5
MAX_ROUNDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A device's or a pair's value against its peers: `gap` as a logarithm, positive when worse; `error` its one sigma.

    `limit`: the gap from which it is called slow. `count`: rounds. `least`: the gap that matters at all.
    """

    gap: float
    error: float
    limit: float
    count: int
    least: float = LEAST_GAP

    @property
    def share(self) -> float:
        """How much worse than its peers: 0.05 is 5% slower."""
        return 1 - math.exp(-self.gap)

    @property
    def is_slow(self) -> bool:
        """Whether the gap is certain and large enough to matter."""
        return self.count >= LEAST_ROUNDS and self.gap >= self.limit

    @property
    def is_open(self) -> bool:
        """Whether more rounds could still make it slow."""
        return not self.is_slow and self.gap + 2 * self.error >= self.least and self.gap >= 0.6 * self.least


def t_quantile(alpha: float, freedom: int) -> float:
    """The one-sided quantile of Student's t, to the first order. Source: Abramowitz & Stegun 26.7.5."""
    z = NormalDist().inv_cdf(1 - alpha)
    return z + (z**3 + z) / (4 * max(freedom, 1))


@dataclass
class Numbers:
    """Values by set of one probe. `fleet` tells pairs within a host from pairs between two."""

    fleet: Fleet
    unit: str = ""
    higher_is_better: bool = True
    alone: dict[int, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    """By device: round and logarithm of the value, positive is better."""
    paired: dict[Set, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    raw: dict[Set, list[float]] = field(default_factory=lambda: defaultdict(list))
    levels: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By device, the values that it gave in sets of any size."""
    kinds: Kinds = field(init=False)

    def __post_init__(self) -> None:
        self.kinds = Kinds(self.fleet)

    def learn(self, round_: int, result: Result) -> None:
        """Takes in the values of a test that passed."""
        self.kinds.learn(result.details)
        value = result.value
        if value is None or value <= 0:
            return
        self.unit, self.higher_is_better = result.unit or self.unit, result.higher_is_better
        sign = 1.0 if result.higher_is_better else -1.0
        for number, each in result.values.items():
            if each > 0:
                self.levels[number].append(each)
        self.raw[result.devices].append(value)
        if len(result.devices) == 1:
            self.alone[result.devices[0]].append((round_, sign * math.log(value)))
        elif len(result.devices) == 2:
            self.paired[result.devices].append((round_, sign * math.log(value)))

    @property
    def is_uneven(self) -> bool:
        """Whether values of one kind differ by more than a tenth so far: then they are worth rounds of their own."""
        groups = self.kinds.groups(self.levels).values()
        means = [[statistics.median(self.levels[number]) for number in group] for group in groups]
        return any(min(each) > 0 and max(each) / min(each) > 1.1 for each in means)

    def misses_pairs(self, devices: Sequence[int]) -> bool:
        """Whether some pair of these devices, three or more, has no value."""
        have = sum(1 for pair in self.paired if set(pair) <= set(devices))
        return len(devices) > 2 and have < len(devices) * (len(devices) - 1) // 2

    # -- devices alone -----------------------------------------------------------------------------------------------

    def devices(self) -> dict[int, Figure]:
        """Each device's figure; empty for fewer than three devices of a kind, which nothing can compare."""
        rows = _relative(_without_first(self.alone), self.kinds.of)
        return _figures(rows)

    def noise(self) -> float | None:
        """One sigma of a single value, as a share: the noise floor. None before there are repeats."""
        rows = _relative(_without_first(self.alone), self.kinds.of) or _relative_pairs(
            _without_first(self.paired), self._kind
        )
        spreads = [_sigma(values) for values in rows.values() if len(values) >= 3]
        return max(statistics.median(spreads), FLOOR) if spreads else None

    def _kind(self, pair: Set) -> tuple[bool, frozenset[str]]:
        is_within = self.fleet.devices[pair[0]].host == self.fleet.devices[pair[1]].host
        return is_within, frozenset(map(self.kinds.of, pair))

    def cut(self) -> tuple[frozenset[str], Figure] | None:
        """One side of two groups of hosts between which every pair is slower than any within; None without such.

        Every pair of hosts must have been measured, and both groups hold two hosts or more: of one host alone the row
        says it. The groups are what stays connected by the pairs above the widest gap between two values.
        """
        between: dict[frozenset[str], list[float]] = defaultdict(list)
        hosts: set[str] = set()
        for pair, values in self.paired.items():
            ends = frozenset(self.fleet.devices[number].host for number in pair)
            if len(ends) == 2:
                between[ends] += [value for _, value in values]
                hosts |= ends
        if len(hosts) < 4 or len(between) < len(hosts) * (len(hosts) - 1) // 2:
            return None
        middles = {ends: statistics.median(values) for ends, values in between.items()}
        order = sorted(middles.values())
        gap, low, high = max((b - a, a, b) for a, b in pairwise(order))
        side = _connected({ends for ends, value in middles.items() if value >= high}, min(hosts))
        rest = hosts - side
        crossing = [ends for ends in middles if len(ends & side) == 1]
        is_cut = all(middles[ends] <= low for ends in crossing) and len(crossing) == sum(v <= low for v in order)
        if min(len(side), len(rest)) < 2 or not is_cut:
            return None
        fast = [value for ends, value in middles.items() if len(ends & side) != 1]
        slow = [middles[ends] for ends in crossing]
        error = MEDIAN_COST * max(_sigma(fast), _sigma(slow), FLOOR)
        # As many ways to part the hosts as there are could have shown such a gap by chance.
        limit = max(LEAST_LINK_GAP, t_quantile(ALPHA / 2 ** min(len(hosts) - 1, 60), len(order)) * error)
        found = Figure(
            gap=statistics.median(fast) - statistics.median(slow),
            error=error,
            limit=limit,
            count=max(LEAST_ROUNDS, min(map(len, between.values()))),
            least=LEAST_LINK_GAP,
        )
        smaller = min((side, rest), key=lambda each: sorted(each))
        return (frozenset(smaller), found) if found.is_slow and gap >= LEAST_LINK_GAP else None

    # -- pairs -------------------------------------------------------------------------------------------------------

    def ends(self) -> dict[int, Figure]:
        """Each device's figure as an end of pairs: the row of the link matrix. Empty for fewer than four devices,
        or where one has met fewer than three others.
        """
        rows: dict[int, list[list[float]]] = defaultdict(list)
        if self.cut() is not None:
            return {}
        for pair, values in _relative_pairs(self.paired, self._kind).items():
            for number in pair:
                rows[number].append(values)
        if len(rows) < 4 or min(map(len, rows.values())) < 3:
            return {}
        # As many values of each partner: a pair that is tried again and again must not decide for its ends.
        return _figures(
            {
                number: [value for values in pairs for value in values[: min(map(len, pairs))]]
                for number, pairs in rows.items()
            }
        )

    def cells(self) -> dict[Set, Figure]:
        """Each pair's figure after its ends' own: the cell of the link matrix."""
        rows = _relative_pairs(self.paired, self._kind)
        if len(rows) < 3 or self.cut() is not None:
            return {}
        by_end: dict[int, list[float]] = defaultdict(list)
        medians = {pair: statistics.median(values) for pair, values in rows.items()}
        for pair, value in medians.items():
            for number in pair:
                by_end[number].append(value)
        end = {number: _upper(values) for number, values in by_end.items()}
        rest = {
            pair: [value - min(0.0, end[pair[0]], end[pair[1]]) for value in values] for pair, values in rows.items()
        }
        return _figures(rest, least=LEAST_LINK_GAP)


def _connected(edges: Iterable[frozenset[str]], start: str) -> frozenset[str]:
    """The hosts that the edges connect with `start`."""
    found, rest = {start}, list(edges)
    while joined := [edge for edge in rest if not found.isdisjoint(edge)]:
        rest = [edge for edge in rest if found.isdisjoint(edge)]
        found.update(*joined)
    return frozenset(found)


def _upper(values: Sequence[float]) -> float:
    """The median, or of two values the better: one bad link must not make its ends bad."""
    return statistics.median(values) if len(values) > 2 else max(values)


def _without_first(rows: Mapping[Key, list[tuple[int, float]]]) -> dict[Key, list[tuple[int, float]]]:
    return {key: values[1:] if len(values) > 1 else values for key, values in rows.items()}


def _relative(rows: Mapping[int, Sequence[tuple[int, float]]], kind: Callable[[int], str]) -> dict[int, list[float]]:
    """Values relative to the median of their round and kind; rounds of fewer than three such say nothing."""
    by_round: dict[tuple[str, int], list[float]] = defaultdict(list)
    for key, values in rows.items():
        for round_, value in values:
            by_round[kind(key), round_].append(value)
    middle = {each: statistics.median(values) for each, values in by_round.items() if len(values) >= LEAST_ALIKE}
    found = {
        key: [value - middle[kind(key), round_] for round_, value in values if (kind(key), round_) in middle]
        for key, values in rows.items()
    }
    return {key: values for key, values in found.items() if values}


def _relative_pairs(
    rows: Mapping[Set, Sequence[tuple[int, float]]], kind: Callable[[Set], Hashable]
) -> dict[Set, list[float]]:
    """Values of pairs relative to the median of all pairs of their kind: of one host or of two, of like ends."""
    by_kind: dict[Hashable, list[float]] = defaultdict(list)
    for pair, values in rows.items():
        by_kind[kind(pair)].append(statistics.median(value for _, value in values))
    middle = {each: statistics.median(values) for each, values in by_kind.items()}
    return {pair: [value - middle[kind(pair)] for _, value in values] for pair, values in rows.items()}


def _sigma(values: Iterable[float]) -> float:
    found = list(values)
    middle = statistics.median(found)
    return MAD_TO_SIGMA * statistics.median(abs(value - middle) for value in found)


def _figures(rows: Mapping[Key, Sequence[float]], *, least: float = LEAST_GAP) -> dict[Key, Figure]:
    """The figure of each row against the median row; empty for fewer than three rows."""
    if len(rows) < 3:
        return {}
    medians = {key: statistics.median(values) for key, values in rows.items()}
    middle = statistics.median(medians.values())
    within = [_sigma(values) for values in rows.values() if len(values) >= 3]
    noise = max(statistics.median(within) if within else 0.0, FLOOR)
    between = max(_sigma(medians.values()), FLOOR)
    quantile = t_quantile(ALPHA / len(rows), len(rows) - 1)
    found = {}
    for key, values in rows.items():
        own = max(noise, _sigma(values)) if len(values) >= 3 else noise
        error = MEDIAN_COST * own / len(values) ** 0.5
        limit = max(least, quantile * (error**2 + between**2) ** 0.5)
        found[key] = Figure(gap=middle - medians[key], error=error, limit=limit, count=len(values), least=least)
    return found
