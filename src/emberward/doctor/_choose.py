"""Which sets to test next: the tests that say most about the open failures, disjoint sets at once. Pure."""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emberward.doctor._belief import MAX_LINK_SET, SPURIOUS, Belief
from emberward.doctor._faults import Cluster, Kind, Part
from emberward.doctor._fleet import Links, Set, Talk

MAX_SUSPECTS = 8
MAX_BATCH = 6
"""Tests of one cluster in one round."""
TIE_BITS = 0.02
"""Tests that differ by less are equally good; the first is taken."""
LEAST_BITS = 1e-4
"""A test that tells less is not worth its start."""
FEW = 16
"""Up to so many devices a fault is sought by halves, in few tests; above, by pairs, in few rounds."""
GAIN_FEW, GAIN_MANY = 0.6, 0.05
"""Bits that a further test of the same round must add: with few devices a test costs as much as a round."""


@dataclass(frozen=True, slots=True)
class _Offer:
    devices: Set
    fails: np.ndarray
    """P(fail) under each explanation."""


def next_tests(
    belief: Belief,
    clusters: Sequence[Cluster],
    *,
    free: Collection[int],
    convicted: Collection[int],
    talk: Talk,
    links: Links | None,
    is_thrifty: bool,
    rng: random.Random,
) -> tuple[list[Set], float]:
    """Disjoint sets to test at once, those of the open clusters that tell most, and the bits that they tell.

    `free`: devices that may be used. `convicted`: those known to be bad, which no set may hold. `is_thrifty`: few tests
    count for more than few rounds.
    """
    suspected = {
        number
        for cluster in clusters
        for part, p in cluster.marginals().items()
        if p > 0.01
        for number in _of(belief, part)
    }
    usable = [number for number in free if number not in convicted]
    trusted = [n for n in usable if n not in suspected and belief.has_passed(n, together=talk is not Talk.ALONE)]
    fresh = [n for n in usable if n not in suspected and n not in trusted]
    partners = [*trusted, *fresh]
    taken: set[int] = set()
    chosen: list[Set] = []
    total = 0.0
    for cluster in clusters:
        offers = [
            _Offer(devices, _fail_chances(belief, cluster, devices, links))
            for devices in _sets(belief, cluster, usable=usable, partners=partners, talk=talk, rng=rng)
        ]
        sets, bits = _batch(cluster, offers, taken, least=GAIN_FEW if is_thrifty else GAIN_MANY)
        chosen += sets
        total += bits
    return chosen, total


def _of(belief: Belief, part: Part) -> list[int]:
    if part.kind in (Kind.DEVICE, Kind.LINK):
        return [int(number) for number in part.key]
    if part.kind is Kind.CUT:
        return []
    return [n for n, device in enumerate(belief.fleet.devices) if device.host in part.key]


def _fail_chances(belief: Belief, cluster: Cluster, devices: Set, links: Links | None) -> np.ndarray:
    """P(fail) of a test of the set under each explanation. `links`: which links such a test uses."""
    shown = np.array([f.rate * belief.exposure(f.part, f.scope, devices, links) for f in cluster.faults])
    unshown: np.ndarray = np.exp(cluster.names @ np.log1p(-shown)) if len(shown) else np.ones(len(cluster.names))
    return 1 - (1 - SPURIOUS) * unshown


def _sets(
    belief: Belief, cluster: Cluster, *, usable: list[int], partners: list[int], talk: Talk, rng: random.Random
) -> Iterator[Set]:
    """Sets that may tell the explanations apart."""
    marginals = cluster.marginals()
    weight: dict[int, float] = {}
    for part, p in marginals.items():
        for number in _of(belief, part) if part.kind is not Kind.SWITCH else ():
            weight[number] = weight.get(number, 0.0) + p
    usable_set = set(usable)
    ranked = sorted((n for n in weight if n in usable_set), key=lambda n: (-round(weight[n], 2), -n))
    suspects = ranked[:MAX_SUSPECTS]
    if talk is not Talk.ALONE and 3 < len(usable) <= FEW:
        # All but one: when it passes, it clears all others at once, and the one is left.
        yield from (tuple(n for n in usable if n != number) for number in suspects[:2])
    if talk is not Talk.TOGETHER:
        yield from ((number,) for number in suspects)
    if talk is not Talk.ALONE:
        hosts = [device.host for device in belief.fleet.devices]
        for number in suspects:
            met = belief.partners(number)
            free = [other for other in partners if other != number]
            rng.shuffle(free)
            # A partner with whom it has not been tested tells a link from its ends; one of each side tells the host.
            free.sort(key=lambda other: other in met)
            for near in (True, False):
                mate = next((other for other in free if (hosts[other] == hosts[number]) is near), None)
                if mate is not None:
                    yield _pair(number, mate)
            # With nobody else left, a suspect of the same cluster.
            yield from (_pair(number, other) for other in suspects if other > number)
        for trial in sorted(cluster.failed, key=lambda each: len(each.devices))[:MAX_SUSPECTS]:
            if set(trial.devices) <= usable_set:
                yield trial.devices
    # Parts of the suspects by halves of their weight, with a partner where a set needs one.
    if talk is not Talk.ALONE and len(ranked) > 2:
        ranked.sort()
        for share in (0.5, 0.25):
            total, half = sum(weight[n] for n in ranked) * share, []
            for number in ranked:
                half.append(number)
                total -= weight[number]
                if total <= 0:
                    break
            if 1 < len(half) < len(ranked):
                yield tuple(half)
            elif len(half) == 1 and partners:
                yield _pair(half[0], partners[0])
    if talk is not Talk.ALONE:
        # A suspect among so many sound ones as a fault needs that shows in larger sets alone.
        leasts = {fault.scope.least for fault in cluster.faults} - {1, 2}
        for least in sorted(leasts):
            for some in ([n] for n in suspects[:2]):
                yield from _filled(some, least, partners)
            # Where several may be bad, larger sets all fail.
            yield from (tuple(ranked[i : i + least]) for i in range(0, len(ranked) - least + 1, least))
            yield from _filled(suspects[: len(suspects) // 2], least, partners)
            yield from _filled(ranked[: len(ranked) // 2], least, partners)


def _filled(some: Sequence[int], least: int, partners: Sequence[int]) -> Iterator[Set]:
    """The suspects with as many partners as make a set of `least`; nothing where there are too few."""
    more = [n for n in partners if n not in some][: max(least - len(some), 0)]
    if some and len(some) + len(more) >= least:
        yield tuple(sorted((*some, *more)))


def _pair(a: int, b: int) -> Set:
    return (min(a, b), max(a, b))


def _entropy(p: np.ndarray) -> np.ndarray:
    q = np.clip(p, 1e-12, 1 - 1e-12)
    value: np.ndarray = -(q * np.log2(q) + (1 - q) * np.log2(1 - q))
    return value


def _batch(cluster: Cluster, offers: Sequence[_Offer], taken: set[int], *, least: float) -> tuple[list[Set], float]:
    """Disjoint offers, greedily by the information that they add about which parts are bad, and all their bits.

    Marks their devices in `taken`.
    """
    names: dict[frozenset[Part], int] = {}
    group = np.array([names.setdefault(each.parts, len(names)) for each in cluster.explanations])
    weights = np.array([each.weight for each in cluster.explanations])
    chosen: list[_Offer] = []
    known = 0.0
    while len(chosen) < MAX_BATCH:
        gains = [
            (_information([*chosen, offer], weights, group, len(names)) - known, offer)
            for offer in offers
            if taken.isdisjoint(offer.devices)
        ]
        top = max((gain for gain, _ in gains), default=0.0)
        if top < (least if chosen else LEAST_BITS):
            break
        best = next(each for each in gains if each[0] >= top - min(TIE_BITS, top / 4))
        chosen.append(best[1])
        known += best[0]
        taken |= set(best[1].devices)
    return [offer.devices for offer in chosen], known


def _information(tests: Sequence[_Offer], weights: np.ndarray, group: np.ndarray, num_groups: int) -> float:
    """Bits that the outcomes of `tests` say about the set of bad parts: H(outcomes) - H(outcomes | parts)."""
    joint = weights[None, :]
    for test in tests:
        joint = np.concatenate([joint * test.fails, joint * (1 - test.fails)])
    by_group = np.zeros((len(joint), num_groups))
    np.add.at(by_group.T, group, joint.T)
    return float(_plogp(by_group.sum(1)) - _plogp(by_group) + _plogp(by_group.sum(0)))


def _plogp(p: np.ndarray) -> float:
    q = p[p > 1e-15]
    return float(-(q * np.log2(q)).sum())


def halves(devices: Sequence[int]) -> list[Set]:
    """The devices in two sets."""
    middle = (len(devices) + 1) // 2
    return [tuple(devices[:middle]), tuple(devices[middle:])]


def wholes_of(devices: Sequence[int]) -> list[Set]:
    """All devices together, in groups of at most MAX_LINK_SET: what failed there may be a link's fault still."""
    return [tuple(devices[i : i + MAX_LINK_SET]) for i in range(0, len(devices), MAX_LINK_SET)]


def circle_round(devices: Sequence[int], number: int) -> list[Set]:
    """Pairs of round `number` of the circle method: after len - 1 rounds (len when odd) every pair has met once.

    Source: Kirkman 1847, the 1-factorisation of the complete graph.
    """
    seats: list[int | None] = list(devices)
    if len(seats) % 2:
        seats.append(None)
    turn = number % max(len(seats) - 1, 1)
    turned = [seats[0], *seats[1 + turn :], *seats[1 : 1 + turn]]
    found = []
    for i in range(len(turned) // 2):
        a, b = turned[i], turned[-1 - i]
        if a is not None and b is not None:
            found.append(_pair(a, b))
    return found
