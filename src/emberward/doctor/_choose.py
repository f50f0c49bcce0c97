"""Which sets to test next: the tests that say most about the open failures, disjoint sets at once. Pure."""

import math
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from emberward.doctor._belief import LINK_ODDS, Belief
from emberward.doctor._exposure import MAX_LINK_SET, Exposures
from emberward.doctor._faults import Cluster, Kind, Part, Scope, Trial
from emberward.doctor._fleet import Links, Set, Talk
from emberward.doctor._search import LINK_BUNCH, NEAR, SPURIOUS

MAX_SUSPECTS = 8
MAX_BATCH = 6
"""Tests of one cluster in one round."""
TIE_BITS = 0.02
"""Tests that differ by less are equally good; the first is taken."""
MAX_MATRIX = 64
"""Every pair is tested with up to so many devices."""
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
    suspected = suspects_of(belief, clusters)
    usable = [number for number in free if number not in convicted]
    # Those that have passed come first.
    partners = sorted(
        (n for n in usable if n not in suspected),
        key=lambda n: not belief.has_passed(n, together=talk is not Talk.ALONE),
    )
    taken: set[int] = set()
    chosen: list[Set] = []
    total = 0.0
    for cluster in clusters:
        found = _sets(belief, cluster, usable=usable, partners=partners, talk=talk, rng=rng)
        offers = _offers(belief, cluster, list(dict.fromkeys(found)), links)
        if is_thrifty:
            sets, bits = _batch(cluster, offers, taken, least=GAIN_FEW)
        else:
            # The set that tells most may hold all that is in doubt: pairs beside each other then tell more.
            small = [offer for offer in offers if len(offer.devices) <= 2]
            rounds = (_batch(cluster, some, taken, least=GAIN_MANY) for some in (offers, small))
            sets, bits = max(rounds, key=lambda found: found[1])
        taken |= {number for devices in sets for number in devices}
        chosen += sets
        total += bits
    return chosen, total


def suspects_of(belief: Belief, clusters: Sequence[Cluster]) -> set[int]:
    """The devices that some of these failures may be about, with more than 1%."""
    return {
        number
        for cluster in clusters
        for part, p in cluster.marginals().items()
        if p > 0.01
        for number in _of(belief, part)
    }


def _of(belief: Belief, part: Part) -> list[int]:
    if part.kind in (Kind.DEVICE, Kind.LINK):
        return [int(number) for number in part.key]
    if part.kind is Kind.CUT:
        return []
    return [n for n, device in enumerate(belief.fleet.devices) if device.host in part.key]


def _offers(belief: Belief, cluster: Cluster, sets: Sequence[Set], links: Links | None) -> list[_Offer]:
    """The sets, each with P(fail) of its test under each explanation. `links`: which links such a test uses."""
    table = Exposures(belief.parts, [Trial(devices, links, 0, 0) for devices in sets])
    shown = np.array([fault.rate * table.of(fault.part, fault.scope) for fault in cluster.faults])
    unshown = np.exp(cluster.names @ np.log1p(-shown)) if len(shown) else np.ones((len(cluster.names), len(sets)))
    further = _further(belief, cluster, sets, table)
    return [_Offer(each, 1 - (1 - SPURIOUS) * unshown[:, i] * (1 - further[:, i])) for i, each in enumerate(sets)]


def _further(belief: Belief, cluster: Cluster, sets: Sequence[Set], table: Exposures) -> np.ndarray:
    """explanation x set: P(a link of the set is bad that it does not name and that never passed).

    Asked of links with an end in common with one that it names, at the odds by which failures are weighed. Without, a
    new partner would seem to tell a device that fails now and then from an end of several bad links, and told nothing
    when it failed.
    """
    found = np.zeros((len(cluster.explanations), len(sets)))
    named = [frozenset(p.key for p in each.parts if p.kind is Kind.LINK) for each in cluster.explanations]
    ends = {int(end) for keys in named for key in keys for end in key}
    unproven: dict[Set, np.ndarray] = {}
    for devices in sets:
        for end in ends.intersection(devices) if len(devices) <= MAX_LINK_SET else ():
            for pair in (_pair(end, other) for other in devices if other != end):
                if pair not in unproven and not belief.passes(Part(Kind.LINK, pair), Scope.TOGETHER):
                    unproven[pair] = table.of(Part(Kind.LINK, pair), Scope.TOGETHER)
    for row, keys in enumerate(named):
        if keys:
            odds = LINK_ODDS * LINK_BUNCH[min(len(keys), len(LINK_BUNCH) - 1)] * NEAR
            near = {int(end) for key in keys for end in key}
            used = sum(share for pair, share in unproven.items() if pair not in keys and not near.isdisjoint(pair))
            found[row] = 1 - (1 + odds) ** -np.asarray(used, dtype=float)
    return found


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
        yield from (tuple(n for n in usable if n != number) for number in suspects[:1])
    if talk is not Talk.TOGETHER:
        yield from ((number,) for number in suspects)
    if talk is not Talk.ALONE:
        hosts = [device.host for device in belief.fleet.devices]
        for number in suspects:
            # A partner with whom it has not been tested tells a link from its ends; one of each side tells the host.
            for near in (True, False):
                free = [other for other in partners if (hosts[other] == hosts[number]) is near and other != number]
                met = belief.partners(number)
                if mates := [other for other in free if other not in met] or free:
                    yield _pair(number, rng.choice(mates))
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


def _batch(
    cluster: Cluster, offers: Sequence[_Offer], taken: Collection[int], *, least: float
) -> tuple[list[Set], float]:
    """Disjoint offers, greedily by the information that they add about which parts are bad, and all their bits.

    None holds a device of `taken`.
    """
    taken = set(taken)
    names: dict[frozenset[Part], int] = {}
    group = np.array([names.setdefault(each.parts, len(names)) for each in cluster.explanations])
    weights = np.array([each.weight for each in cluster.explanations])
    chosen: list[_Offer] = []
    known = first = 0.0
    while len(chosen) < MAX_BATCH:
        gains = [
            (_information([*chosen, offer], weights, group, len(names)) - known, offer)
            for offer in offers
            if taken.isdisjoint(offer.devices)
        ]
        top = max((gain for gain, _ in gains), default=0.0)
        if top < ((least if least > GAIN_MANY else min(least, first / 2)) if chosen else LEAST_BITS):
            break
        best = next(each for each in gains if each[0] >= top - min(TIE_BITS, top / 4))
        chosen.append(best[1])
        known += best[0]
        first = first or best[0]
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


def adjacent(devices: Sequence[int]) -> list[Set]:
    """Pairs of neighbours, three in the last set where they are odd in number."""
    pairs: list[Set] = [(devices[i], devices[i + 1]) for i in range(0, len(devices) - 1, 2)]
    return pairs if len(devices) % 2 == 0 else [*pairs[:-1], (*pairs[-1], devices[-1])]


def wholes_of(devices: Sequence[int]) -> list[Set]:
    """All devices together, in groups of at most MAX_LINK_SET: what failed there may be a link's fault still."""
    num = math.ceil(len(devices) / MAX_LINK_SET)
    ends = [len(devices) * i // num for i in range(num + 1)] if num else [0]
    return [tuple(sorted(devices[a:b])) for a, b in pairwise(ends)]


def groups_of(devices: Sequence[int], free: Sequence[int], *, apart: Collection[int], is_alone: bool) -> list[Set]:
    """Disjoint sets that give each of `devices` a try: as large as may be, those of `apart` alone or with one other.

    `free`: whom a device may be tested with, those of `devices` included.
    """
    single = [n for n in devices if n in apart]
    rest = [n for n in devices if n not in apart]
    mates = [*(n for n in free if n not in apart and n not in rest), *rest]
    found: list[Set] = []
    if is_alone:
        found += [(n,) for n in single]
    else:
        mates += single
        for number in single:
            mate = next((n for n in mates if n != number), None)
            if number in mates and mate is not None:
                found.append(_pair(number, mate))
                mates = [n for n in mates if n not in (number, mate)]
    used = {n for each in found for n in each}
    rest = [n for n in rest if n not in used]
    if len(rest) == 1:
        rest += [n for n in free if n not in used and n not in apart and n not in rest][:1]
    return [*found, *(whole for whole in wholes_of(rest) if len(whole) > 1)]


def circle_round(devices: Sequence[int], number: int) -> list[Set]:
    """Pairs of round `number` of the circle method: after len - 1 rounds (len when odd) every pair has met once.

    Source: Kirkman 1847, the 1-factorisation of the complete graph.
    """
    if len(devices) < 2:
        return []
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


def untried(belief: Belief, free: Sequence[int]) -> list[Set]:
    """The round of pairs with the most that were not tested as a pair; empty when all were, or are too many."""
    if not 2 < len(free) <= MAX_MATRIX:
        return []
    met = {n: belief.partners(n) for n in free}
    rounds = [circle_round(free, turn) for turn in range(len(free) - 1 + len(free) % 2)]
    best = max(rounds, key=lambda pairs: sum(b not in met[a] for a, b in pairs))
    return best if any(b not in met[a] for a, b in best) else []


def rivalled(
    belief: Belief, clusters: Sequence[Cluster], convicted: Collection[int], free: Sequence[int], *, least: float
) -> list[Set]:
    """A pair with a partner that it has not met for each convicted device that links explain with more than `least`."""
    pairs: list[Set] = []
    for cluster in clusters:
        named = [int(part.key[0]) for part in cluster.marginals() if part.kind is Kind.DEVICE]
        for number in named if cluster.links_weight > least else ():
            taken = {n for pair in pairs for n in pair} | belief.partners(number)
            mate = next((n for n in free if n not in taken), None)
            if number in convicted and mate is not None:
                pairs.append(_pair(number, mate))
    return pairs
