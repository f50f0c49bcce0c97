"""What failures and passes say about devices, hosts, links and switches: a posterior over sets of faults. Pure.

[Note: the posterior]
A fault is a part (device, host, link, cable between two hosts, switch), a scope (always; only in sets of two or more;
only in sets of several hosts) and a rate, the share of tries in which it shows. A test passes when no fault in it shows
and nothing else goes wrong: P(pass) = (1 - SPURIOUS) x product of (1 - rate) over the faults that it exercises, the
noisy-OR of Bayesian group testing (Chan et al. 2011, "Non-adaptive probabilistic group testing with noisy
measurements"). Failed tests that share no possible part are judged apart. Within such a cluster the likeliest
explanations are searched breadth-first with a beam; the posterior of a part is the weight of those that name it.

The priors are ratios of our own choosing, and only ratios matter: a device fails more often than a host or a
switch, and a single link between two good ends far more rarely than either. Two links with a common end therefore weigh
less than that end, and a device that failed with one partner alone is not yet told from its link. Where two links are
bad, a third is no rarer than a bad device, and one with a common end is bad or sound with nearly even chances. Several
links of one end are one step of the search, so that they are reached as soon as that end is. Repeats tell them apart: a
device that fails in 1 of 2 tries fails with anybody, a bad link on the same pair and always.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

import numpy as np

from emberward.doctor._chance import Tally
from emberward.doctor._exposure import MAX_LINK_SET, Exposures, Parts, used_by
from emberward.doctor._faults import CONSTANT, LINKS, Cluster, Fault, Kind, Part, Scope, Trial
from emberward.doctor._fleet import Fleet, Links, Set
from emberward.doctor._parting import Parting
from emberward.doctor._search import LINK_BUNCH, NEAR, SPURIOUS, search

RATES = {0.999: 0.6, 0.5: 0.2, 0.1: 0.1, 0.02: 0.1}
"""Rate of a fault and the share of faults that have it."""
OWN = 0.4
"""So often as a probe fails always it fails now and then. Of our own choosing."""
PRIORS: dict[Kind, dict[Scope, float]] = {
    Kind.DEVICE: {Scope.ALWAYS: 5e-3, Scope.TOGETHER: 5e-3, Scope.FOUR: 1e-4, Scope.EIGHT: 1e-4},
    Kind.HOST: {Scope.ALWAYS: 1e-3, Scope.TOGETHER: 5e-4, Scope.OUTSIDE: 1.5e-3},
    Kind.LINK: {Scope.TOGETHER: 5e-4},
    Kind.CABLE: {Scope.OUTSIDE: 5e-4},
    Kind.SWITCH: {Scope.OUTSIDE: 2e-3},
    Kind.CUT: {Scope.OUTSIDE: 2e-3},
}
"""A device that fails in larger sets alone is far rarer than two links that are bad: those explain much the same tests.

A cut's is shared by all ways to part so many hosts in two, 2^(hosts - 1): which one it is was read off the tests."""
MAX_SIDES = 4
"""With more groups that never passed together it is too early to speak of a cut."""
FAINT = sum(PRIORS[Kind.DEVICE].values()) * sum(share for rate, share in RATES.items() if rate < CONSTANT)
"""That a device fails now and then."""
_LOGARITHMS = {
    (kind, scope): [
        (math.log(prior * share), math.log1p(-rate), math.log((1 - (1 - SPURIOUS) * (1 - rate)) / SPURIOUS))
        for rate, share in RATES.items()
    ]
    for kind, priors in PRIORS.items()
    for scope, prior in priors.items()
}
"""For each rate: of the prior, of a pass of the faulty part, of a failure of it against one by chance."""
LINK_ODDS = PRIORS[Kind.LINK][Scope.TOGETHER] * RATES[0.999]
"""That a link always fails, where nothing is known."""
LEAST_PRIOR = 3e-10
"""Faults that are less likely from the start are not considered."""
LEAST_ODDS = math.log(1e-3)
"""A part that makes its failures at most so much likelier than chance is no reason to weigh them together."""
FEW_HOSTS = 16
HARDLY = 1e-5
"""A parted network that is at most so much likelier than none is not weighed further."""


class Belief:
    """Counts what the tests of one probe gave, and judges. `common_prior`: that the probe itself fails everywhere."""

    def __init__(self, fleet: Fleet, *, common_prior: float) -> None:
        self.fleet = fleet
        self.parts = Parts(fleet)
        self._common_prior = common_prior
        self._trials: dict[tuple[Set, Links | None], list[int]] = {}
        self._failed: dict[tuple[Set, Links | None], list[int]] = {}
        self.tally = Tally()
        self._explained: dict[tuple[object, ...], Cluster] = {}
        self._partners: dict[int, set[int]] = defaultdict(set)
        self._sides: dict[str, set[str]] = {}
        self._places = {host: place for place, host in enumerate(dict.fromkeys(self.parts.host_of))}
        self.parting = Parting(len(self._places)) if len(self._places) > FEW_HOSTS else None
        """None with so few hosts that each cut is weighed by itself."""
        self._passes: dict[tuple[object, ...], int] = defaultdict(int)
        self._large: list[tuple[frozenset[int], Set, Links | None, int]] = []
        """Passed sets of more than MAX_LINK_SET, whose links are not counted one by one, and their tries."""
        self.tries: dict[tuple[int, bool], int] = defaultdict(int)
        """Passed tries by device and whether it was in a set of two or more."""

    # -- what was seen -----------------------------------------------------------------------------------------------

    def learn(self, devices: Set, *, passed: bool, links: Links | None, tries: int = 1) -> None:
        """Takes in a test; `tries`: how many tries its one answer stands for."""
        key = (devices, links)
        counts = self._trials.setdefault(key, [0, 0])
        hosts = {self.parts.host_of[device] for device in devices}
        for host in hosts:
            self._sides.setdefault(host, {host})
        if len(devices) == 2:
            self._partners[devices[0]].add(devices[1])
            self._partners[devices[1]].add(devices[0])
        if self.parting is not None and self._is_across(devices, links):
            places = sorted(self._places[host] for host in hosts)
            if passed:
                self.parting.passed(places)
            elif not counts[1]:
                self.parting.failed(places, cause=self._cause(devices))
        self.tally.learn(len(devices), passed=passed, tries=tries)
        if passed:
            counts[0] += tries
            self._count_pass(devices, hosts, links, tries)
        else:
            counts[1] += 1
            self._failed[key] = counts

    def _count_pass(self, devices: Set, hosts: set[str], links: Links | None, tries: int) -> None:
        """Counts the tries for each part that they clear: what `Parts.exposure` says is surely exercised."""
        for device in devices:
            self.tries[device, len(devices) > 1] += tries
            for scope in _LARGER:
                self._passes[Kind.DEVICE, scope, device] += tries * (len(devices) >= scope.least)
        if len(devices) > MAX_LINK_SET:
            self._large.append((frozenset(devices), devices, links, tries))
        else:
            for one, other in used_by(devices, links):
                self._passes[Kind.LINK, Scope.TOGETHER, min(one, other), max(one, other)] += tries
        for host in hosts & self.parts.several:
            self._passes[Kind.HOST, Scope.ALWAYS, host] += tries
            self._passes[Kind.HOST, Scope.TOGETHER, host] += tries * (len(devices) > 1)
            self._passes[Kind.HOST, Scope.OUTSIDE, host] += tries * (len(hosts) > 1)
        if len(hosts) < 2:
            return
        ordered = sorted(hosts)
        if self.fleet.switches:
            for switch in self.parts.between(devices):
                self._passes[Kind.SWITCH, Scope.OUTSIDE, switch] += tries
        if len(several := [host for host in ordered if host in self.parts.several]) > 1:
            for a, b in combinations(several, 2):
                if self.parts.exposure(Part(Kind.CABLE, (a, b)), Scope.OUTSIDE, devices, links) >= 1:
                    self._passes[Kind.CABLE, Scope.OUTSIDE, a, b] += tries
        joined = max((self._sides[host] for host in ordered), key=len)
        for host in ordered:
            if (side := self._sides[host]) is not joined:
                joined |= side
                for each in side:
                    self._sides[each] = joined

    def passes(self, part: Part, scope: Scope) -> int:
        """Passed tries that surely exercised the part."""
        if part.kind is Kind.DEVICE and scope not in _LARGER:
            number = int(part.key[0])
            return self.tries[number, True] + (self.tries[number, False] if scope is Scope.ALWAYS else 0)
        found = self._passes.get((part.kind, scope, *part.key), 0)
        if part.kind is Kind.LINK:
            for members, devices, links, tries in self._large:
                is_used = links is Links.ALL or any(set(part.key) == set(pair) for pair in used_by(devices, links))
                found += tries * (is_used and members.issuperset(part.key))
        return found

    def has_passed(self, device: int, *, together: bool) -> bool:
        """Whether the device was in a test that passed; `together`: in a set of two or more, else in any."""
        return self.tries[device, True] > 0 or (not together and self.tries[device, False] > 0)

    def partners(self, device: int) -> set[int]:
        """The devices with which it was tested as a pair."""
        return self._partners[device]

    def has_failed_alone(self, part: Part) -> bool:
        """Whether a test of two devices that exercised the link or cable has failed."""
        scope = Scope.OUTSIDE if part.kind is Kind.CABLE else Scope.TOGETHER
        pairs = [trial for trial in self.failed_trials() if len(trial.devices) == 2]
        return any(self.parts.exposure(part, scope, pair.devices, pair.links) for pair in pairs)

    def pairs_of(self, links: Iterable[Part], free: Collection[int]) -> list[Set]:
        """Disjoint pairs of free devices, each of which exercises one of these links or cables alone."""
        found: list[Set] = []
        for part in links:
            taken = {number for pair in found for number in pair}
            ends = [[n for n in free if n not in taken and end in (n, self.parts.host_of[n])] for end in part.key]
            if all(ends):
                found.append((min(ends[0][0], ends[1][0]), max(ends[0][0], ends[1][0])))
        return found

    def failed_trials(self) -> tuple[Trial, ...]:
        """The sets that failed at least once."""
        return tuple(Trial(devices, links, passes, fails) for (devices, links), (passes, fails) in self._failed.items())

    # -- the judgement -----------------------------------------------------------------------------------------------

    def common(self, clusters: Sequence["Cluster"]) -> float:
        """The posterior that the probe fails everywhere, or in every set of two or more, for a reason of its own.

        `clusters`: all of them; what they are worth together is the alternative.
        """
        if not clusters:
            return 0.0
        alone, together = self.tally.totals()
        weights = [self._common_weight(alone[0] + together[0], alone[1] + together[1], 0)]
        if any(together):
            weights.append(self._common_weight(together[0], together[1], alone[1]))
        return _posterior(weights, clusters)

    def own(self, clusters: Sequence["Cluster"], apart: float = 0.0, *, is_faint: bool) -> float:
        """The posterior that all failures are the probe's own, in a share of the tries of everybody.

        `apart`: that the network has parted. `is_faint`: against parts that fail now and then, see [Note: the probe's
        own failures].
        """
        if not clusters:
            return 0.0
        evidence, likeliest = self.tally.evidence()
        weight = math.log(self._common_prior * OWN) + evidence
        if is_faint:
            weight = math.log(len(self.fleet) * FAINT) + likeliest
        return _posterior([weight], clusters, apart)

    def _common_weight(self, passes: int, fails: int, other_fails: int) -> float:
        if not fails:
            return -math.inf
        return math.log(self._common_prior) + math.log(1e-3) * passes + math.log(SPURIOUS) * other_fails

    def _cuts(self) -> list[Part]:
        """The cuts that no test speaks against, each by its smaller side: groups of two hosts or more on both.

        A group passed tests together, directly or by way of others.
        """
        sides = [frozenset(side) for side in {id(side): side for side in self._sides.values()}.values()]
        total = len(self._sides)
        if self.parting is not None or not 1 < len(sides) <= MAX_SIDES:
            return []
        found = [side for side in sides if len(side) > 1 and total - len(side) > 1]
        whole = frozenset(self._sides)
        return sorted({Part(Kind.CUT, min(sorted_side(side), sorted_side(whole - side))) for side in found})

    def clusters(self, *, known: Collection[Part] = (), cut: Part | None = None) -> list[Cluster]:
        """The failures in groups without a common part, each with its explanations. `known`: links that are bad.

        `cut`: known as well; it explains what it crosses.
        """
        groups: list[tuple[set[Part], list[Trial]]] = []
        cuts = self._cuts() if self._failed else []
        failed = [
            trial
            for trial in self.failed_trials()
            if cut is None or not self.parts.exposure(cut, Scope.OUTSIDE, trial.devices, trial.links)
        ]
        likely = self._likely(failed)
        for trial in failed:
            parts = likely.intersection(self.parts.possible(trial.devices))
            parts |= {cut for cut in cuts if self.parts.exposure(cut, Scope.OUTSIDE, trial.devices, trial.links)}
            joined = [group for group in groups if not group[0].isdisjoint(parts)]
            for group in joined:
                groups.remove(group)
            groups.append(
                (parts.union(*(group[0] for group in joined)), [trial, *(each for g in joined for each in g[1])])
            )
        return [self._judge(parts, trials, int(any(link not in parts for link in known))) for parts, trials in groups]

    def _likely(self, failed: Iterable[Trial]) -> set[Part]:
        """The parts that passed tests leave some odds of having to do with these failures."""
        times: dict[Part, int] = defaultdict(int)
        for trial in failed:
            for part in self.parts.possible(trial.devices):
                times[part] += trial.fails
        return {part for part, fails in times.items() if self._odds(part, fails) >= LEAST_ODDS}

    def _odds(self, part: Part, fails: int) -> float:
        """The logarithm of how much likelier the part makes so many failures with it, at most, than chance does."""
        near = math.log(LINK_BUNCH[-1] * NEAR) if part.kind in LINKS else 0.0
        return near + max(
            base + passes * clears + fails * shows
            for scope in PRIORS[part.kind]
            for passes in (self.passes(part, scope),)
            for base, clears, shows in _LOGARITHMS[part.kind, scope]
        )

    def parted(self, without: Sequence[Cluster]) -> tuple[float, Part, float] | None:
        """Whether the network has parted, see [Note: a parted network]; None where it need not be weighed.

        `without`: all failures as they are explained if it has not.
        """
        if self.parting is None or not self._failed:
            return None
        found = self.parting.weigh()
        if found.evidence < math.log(HARDLY):
            return None
        cut = Part(Kind.CUT, tuple(sorted(found.side(list(self._places)))))
        crossed = [
            trial
            for trial in self.failed_trials()
            if self.parts.exposure(cut, Scope.OUTSIDE, trial.devices, trial.links)
        ]
        rest = self.clusters(cut=cut)
        apart = found.evidence + sum(math.log(self._cause(trial.devices)) for trial in crossed)
        apart += sum(cluster.evidence for cluster in rest)
        whole = sum(cluster.evidence for cluster in without)
        weight = 1 / (1 + math.exp(min(max(whole - apart, -700), 700)))
        return weight, cut, float(found.shares[0])

    def _is_across(self, devices: Set, links: Links | None) -> bool:
        """Whether a test used the network between hosts."""
        return links is not Links.NONE and len({self.parts.host_of[device] for device in devices}) > 1

    def _cause(self, devices: Set) -> float:
        """That a test of the set fails, by chance or for a part of it."""
        num = len(devices)
        links = num * (num - 1) / 2 if 1 < num <= MAX_LINK_SET else 0
        kinds = {Kind.DEVICE: num, Kind.HOST: num, Kind.LINK: links, Kind.SWITCH: int(bool(self.fleet.switches))}
        return min(SPURIOUS + sum(count * sum(PRIORS[kind].values()) for kind, count in kinds.items()), 1.0)

    def _judge(self, parts: set[Part], failed: list[Trial], num_bad: int) -> Cluster:
        """The cluster as it was judged last where no test since speaks of it, or where chance was its reason.

        Passes of other sets make chance but likelier.
        """
        key = (*failed, num_bad)
        before = self._explained.get(key)
        tries = sum(self.tries[n, together] for trial in failed for n in trial.devices for together in (False, True))
        if before is not None and (before.is_chance or before.tries == tries):
            return before
        self._explained[key] = found = self._explain(sorted(parts), failed, num_bad, tries)
        return found

    def _explain(self, parts: list[Part], failed: list[Trial], num_bad: int, tries: int) -> Cluster:
        fails = np.array([trial.fails for trial in failed], dtype=float)
        faults: list[Fault] = []
        exposed: list[np.ndarray] = []
        priors: list[float] = []
        table = Exposures(self.parts, failed)
        for part in parts:
            for scope, prior in PRIORS[part.kind].items():
                shares = table.of(part, scope)
                if not shares.any():
                    continue
                if part.kind is Kind.CUT:
                    prior *= 2.0 ** (1 - min(len(set(self.parts.host_of)), 1000))
                passes = self.passes(part, scope)
                for rate, share in RATES.items():
                    if prior * share >= LEAST_PRIOR or part.kind is Kind.CUT:
                        faults.append(Fault(part, scope, rate))
                        exposed.append(shares)
                        priors.append(math.log(prior * share) + passes * math.log1p(-rate))
        found, evidence = search(
            faults,
            np.array(exposed) * np.array([fault.rate for fault in faults])[:, None],
            np.array(priors),
            fails,
            num_bad=num_bad,
            bundles=self._bundles(faults, failed),
        )
        named = {fault: column for column, fault in enumerate({f: None for each in found for f in each.faults})}
        names = np.zeros((len(found), len(named)))
        for row, each in enumerate(found):
            names[row, [named[fault] for fault in each.faults]] = 1.0
        return Cluster(
            failed=tuple(failed), explanations=found, faults=tuple(named), names=names, evidence=evidence, tries=tries
        )

    def _bundles(self, faults: Sequence[Fault], failed: Sequence[Trial]) -> list[tuple[int, ...]]:
        """Of each end the places of its links or cables that failed by themselves and never passed, where several."""
        links = {trial.devices for trial in failed if len(trial.devices) == 2}
        pairs = {*links, *(tuple(sorted(self.parts.host_of[n] for n in pair)) for pair in links)}
        at: dict[int | str, list[int]] = defaultdict(list)
        for index, fault in enumerate(faults):
            is_pair = fault.part.kind in (Kind.LINK, Kind.CABLE) and fault.part.key in pairs
            if is_pair and fault.rate > CONSTANT and not self.passes(fault.part, fault.scope):
                for end in fault.part.key:
                    at[end].append(index)
        return [tuple(members) for members in at.values() if len(members) > 1]


def sorted_side(hosts: Iterable[str]) -> tuple[str, ...]:
    """The hosts of a side as a cut's key has them."""
    return tuple(sorted(hosts))


_LARGER = (Scope.FOUR, Scope.EIGHT)


def _posterior(weights: Sequence[float], clusters: Sequence[Cluster], apart: float = 0.0) -> float:
    """What explanations with these logarithms weigh beside those by parts, or by a parted network with `apart`."""
    faults = sum(cluster.evidence for cluster in clusters) - math.log(max(1 - apart, 1e-300))
    top = max([*weights, faults])
    total = sum(math.exp(weight - top) for weight in weights)
    return total / (total + math.exp(faults - top))
