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
less than that end, and a device that failed with one partner alone is not yet told from its link.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

import numpy as np

from emberward.doctor._fleet import Fleet, Links, Set


class Kind(StrEnum):
    """What sort of part; a cable is all that two hosts have between them, a cut all that two groups of hosts have."""

    DEVICE = "device"
    HOST = "host"
    LINK = "link"
    CABLE = "cable"
    SWITCH = "switch"
    CUT = "cut"


class Scope(StrEnum):
    """In which sets a fault can show: any, those of so many members at least, those of several hosts."""

    ALWAYS = "always"
    TOGETHER = "together"
    FOUR = "four"
    EIGHT = "eight"
    OUTSIDE = "outside"

    @property
    def least(self) -> int:
        """Members of the smallest set in which it can show."""
        return _LEAST.get(self, 1)


_LEAST = {Scope.TOGETHER: 2, Scope.FOUR: 4, Scope.EIGHT: 8}


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A device (its number), a host, a link (two numbers), a cable (two hosts), a switch, a cut (one side of it)."""

    kind: Kind
    key: tuple[int, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A part that fails in `scope` in a share `rate` of the tries."""

    part: Part
    scope: Scope
    rate: float


SPURIOUS = 1e-3
"""Share of tests of sound parts that fail all the same: a port in use, a full disk, a lost connection."""
RATES = {0.999: 0.6, 0.5: 0.2, 0.1: 0.1, 0.02: 0.1}
"""Rate of a fault and the share of faults that have it."""
PRIORS: dict[Kind, dict[Scope, float]] = {
    Kind.DEVICE: {Scope.ALWAYS: 5e-3, Scope.TOGETHER: 5e-3, Scope.FOUR: 1e-9, Scope.EIGHT: 1e-9},
    Kind.HOST: {Scope.ALWAYS: 1e-3, Scope.TOGETHER: 5e-4, Scope.OUTSIDE: 1.5e-3},
    Kind.LINK: {Scope.TOGETHER: 5e-4},
    Kind.CABLE: {Scope.OUTSIDE: 5e-4},
    Kind.SWITCH: {Scope.OUTSIDE: 2e-3},
    Kind.CUT: {Scope.OUTSIDE: 2e-3},
}
"""A device that fails in larger sets alone is far rarer than two links that are bad: those explain much the same tests.

A cut's is shared by all ways to part so many hosts in two, 2^(hosts - 1): which one it is was read off the tests."""
LINK_BUNCH = 10.0
"""Once a link is known to be bad, others are this much likelier: a bad batch of cables, a bad board."""
MAX_LINK_SET = 16
"""Links are possible parts of a failed test of at most so many members: in a larger one there are too many."""
MAX_SIDES = 4
"""With more groups that never passed together it is too early to speak of a cut."""
LEAST_PRIOR = 3e-10
"""Faults that are less likely from the start are not considered."""
BEAM = 40
MAX_FAULTS = 8
MAX_HYPOTHESES = 400
MAX_SECOND = 40
MAX_EXPLANATIONS = 250
UNKNOWN_USE = 0.5
"""Share of its links that a set of three or more uses when its probe does not say which."""


@dataclass(frozen=True, slots=True)
class Trial:
    """All tests of one set: how often it passed and failed, and which links it used (None: unknown)."""

    devices: Set
    links: Links | None
    passes: int
    fails: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Faults that together explain a cluster, and its posterior."""

    faults: tuple[Fault, ...]
    weight: float

    @property
    def parts(self) -> frozenset[Part]:
        """The parts that it names."""
        return frozenset(fault.part for fault in self.faults)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Failed tests that may have a part in common, and what may explain them, likeliest first."""

    failed: tuple[Trial, ...]
    explanations: tuple[Explanation, ...]
    faults: tuple[Fault, ...]
    """The faults that some explanation names."""
    names: np.ndarray
    """explanation x fault: whether it names it."""
    evidence: float
    """Logarithm of what the explanations are worth together, priors included."""

    def marginals(self) -> dict[Part, float]:
        """The posterior of each part that some explanation names."""
        found: dict[Part, float] = defaultdict(float)
        for each in self.explanations:
            for part in each.parts:
                found[part] += each.weight
        return dict(found)

    def by_parts(self) -> dict[frozenset[Part], float]:
        """The posterior of each set of parts, whatever their scopes and rates."""
        found: dict[frozenset[Part], float] = defaultdict(float)
        for each in self.explanations:
            found[each.parts] += each.weight
        return dict(found)


class Belief:
    """Counts what the tests of one probe gave, and judges. `common_prior`: that the probe itself fails everywhere."""

    def __init__(self, fleet: Fleet, *, common_prior: float) -> None:
        self.fleet = fleet
        self._hosts = [device.host for device in fleet.devices]
        counts: dict[str, int] = defaultdict(int)
        for host in self._hosts:
            counts[host] += 1
        self._several = {host for host, count in counts.items() if count > 1}
        self._common_prior = common_prior
        self._trials: dict[tuple[Set, Links | None], list[int]] = {}
        self._of_device: dict[int, set[tuple[Set, Links | None]]] = defaultdict(set)
        self.tries: dict[tuple[int, bool], int] = defaultdict(int)
        """Passed tries by device and whether it was in a set of two or more."""

    # -- what was seen -----------------------------------------------------------------------------------------------

    def learn(self, devices: Set, *, passed: bool, links: Links | None, tries: int = 1) -> None:
        """Takes in a test; `tries`: how many tries its one answer stands for."""
        key = (devices, links)
        counts = self._trials.setdefault(key, [0, 0])
        counts[0 if passed else 1] += tries if passed else 1
        for device in devices:
            self._of_device[device].add(key)
            if passed:
                self.tries[device, len(devices) > 1] += tries

    def has_passed(self, device: int, *, together: bool) -> bool:
        """Whether the device was in a test that passed; `together`: in a set of two or more, else in any."""
        return self.tries[device, True] > 0 or (not together and self.tries[device, False] > 0)

    def partners(self, device: int) -> set[int]:
        """The devices with which it was tested as a pair."""
        return {
            other for devices, _ in self._of_device[device] if len(devices) == 2 for other in devices if other != device
        }

    def failed_trials(self) -> tuple[Trial, ...]:
        """The sets that failed at least once."""
        return tuple(
            Trial(devices, links, passes, fails) for (devices, links), (passes, fails) in self._trials.items() if fails
        )

    # -- what is exercised -------------------------------------------------------------------------------------------

    def exposure(self, part: Part, scope: Scope, devices: Set, links: Links | None) -> float:
        """The share in which the test exercises the part: 1, 0, or UNKNOWN_USE for a link of a set that may use it."""
        if len(devices) < scope.least:
            return 0.0
        if part.kind is Kind.DEVICE:
            return float(part.key[0] in devices)
        hosts = {self._hosts[device] for device in devices}
        if scope is Scope.OUTSIDE and len(hosts) < 2:
            return 0.0
        match part.kind:
            case Kind.CUT:
                return float(not hosts.isdisjoint(part.key) and not hosts <= set(part.key))
            case Kind.HOST:
                return float(part.key[0] in hosts)
            case Kind.SWITCH:
                return float(any(part.key[0] in self._path(a, b) for a, b in combinations(sorted(hosts), 2)))
            case Kind.CABLE:
                if not set(part.key) <= hosts:
                    return 0.0
                if links is not None and links is not Links.ALL:
                    pairs = _ring(devices) if links is Links.RING else []
                    return float(any({self._hosts[a], self._hosts[b]} == set(part.key) for a, b in pairs))
                return 1.0 if links is Links.ALL or len(hosts) == 2 else UNKNOWN_USE
            case Kind.LINK:
                if not set(part.key) <= set(devices):
                    return 0.0
                if links is Links.ALL or (len(devices) == 2 and links is not Links.NONE):
                    return 1.0
                if links is Links.RING:
                    return float(any({a, b} == set(part.key) for a, b in _ring(devices)))
                return 0.0 if links is Links.NONE else UNKNOWN_USE

    def _path(self, a: str, b: str) -> set[str]:
        """The switches between two hosts: up to the lowest that both stand below."""
        up, down = self.fleet.switches.get(a, ()), self.fleet.switches.get(b, ())
        common = next((switch for switch in up if switch in down), None)
        if common is None:
            return {*up, *down}
        return {*up[: up.index(common) + 1], *down[: down.index(common) + 1]}

    def _possible(self, devices: Set) -> Iterable[Part]:
        """The parts that may have made a test of this set fail."""
        for device in devices:
            yield Part(Kind.DEVICE, (device,))
        hosts = sorted({self._hosts[device] for device in devices})
        yield from (Part(Kind.HOST, (host,)) for host in hosts if host in self._several)
        if 2 <= len(devices) <= MAX_LINK_SET:
            yield from (Part(Kind.LINK, (min(a, b), max(a, b))) for a, b in combinations(devices, 2))
            if len(hosts) > 1:
                several = [host for host in hosts if host in self._several]
                yield from (Part(Kind.CABLE, pair) for pair in combinations(several, 2))
        if len(hosts) > 1:
            found = {switch for a, b in combinations(hosts, 2) for switch in self._path(a, b)}
            yield from (Part(Kind.SWITCH, (switch,)) for switch in sorted(found))

    # -- the judgement -----------------------------------------------------------------------------------------------

    def common(self, clusters: Sequence["Cluster"]) -> float:
        """The posterior that the probe fails everywhere, or in every set of two or more, for a reason of its own.

        `clusters`: all of them; what they are worth together is the alternative.
        """
        if not clusters:
            return 0.0
        together = [counts for (devices, _), counts in self._trials.items() if len(devices) > 1]
        alone = [counts for (devices, _), counts in self._trials.items() if len(devices) == 1]
        weights = [self._common_weight([*together, *alone], 0)]
        if together:
            weights.append(self._common_weight(together, sum(counts[1] for counts in alone)))
        faults = sum(cluster.evidence for cluster in clusters)
        top = max([*weights, faults])
        total = sum(math.exp(weight - top) for weight in weights)
        return total / (total + math.exp(faults - top))

    def _common_weight(self, covered: Sequence[list[int]], other_fails: int) -> float:
        passes, fails = sum(c[0] for c in covered), sum(c[1] for c in covered)
        if not fails:
            return -math.inf
        return math.log(self._common_prior) + math.log(1e-3) * min(passes, 50) + math.log(SPURIOUS) * other_fails

    def _sides(self) -> list[frozenset[str]]:
        """The groups of hosts that passed tests together, directly or by way of others."""
        group: dict[str, set[str]] = {}
        for (devices, _), (passes, _) in self._trials.items():
            hosts = {self._hosts[device] for device in devices}
            for host in hosts:
                group.setdefault(host, {host})
            if passes and len(hosts) > 1:
                joined = set().union(*(group[host] for host in hosts))
                for host in joined:
                    group[host] = joined
        return [frozenset(side) for side in {id(side): side for side in group.values()}.values()]

    def _cuts(self) -> list[Part]:
        """The cuts that no test speaks against, each by its smaller side: groups of two hosts or more on both."""
        sides = self._sides()
        total = sum(map(len, sides))
        if not 1 < len(sides) <= MAX_SIDES:
            return []
        found = [side for side in sides if len(side) > 1 and total - len(side) > 1]
        whole = frozenset().union(*sides)
        return sorted({Part(Kind.CUT, min(sorted_side(side), sorted_side(whole - side))) for side in found})

    def clusters(self, *, known_links: int = 0, settled: frozenset[Part] = frozenset()) -> list[Cluster]:
        """The failures in groups without a common part, each with its explanations.

        `settled`: parts that are known to be bad; tests that one of them made fail for certain tell no more.
        """
        failed = [
            trial
            for trial in self.failed_trials()
            if not any(self.exposure(part, _widest(part), trial.devices, trial.links) >= 1 for part in settled)
        ]
        groups: list[tuple[set[Part], list[Trial]]] = []
        cuts = self._cuts() if failed else []
        for trial in failed:
            parts = set(self._possible(trial.devices))
            parts |= {cut for cut in cuts if self.exposure(cut, Scope.OUTSIDE, trial.devices, trial.links)}
            joined = [group for group in groups if not group[0].isdisjoint(parts)]
            for group in joined:
                groups.remove(group)
            groups.append(
                (parts.union(*(group[0] for group in joined)), [trial, *(each for g in joined for each in g[1])])
            )
        return [self._explain(sorted(parts), trials, known_links, settled) for parts, trials in groups]

    def _explain(self, parts: list[Part], failed: list[Trial], known_links: int, settled: frozenset[Part]) -> Cluster:
        touched = {number for trial in failed for number in trial.devices}
        keys = sorted({key for number in touched for key in self._of_device[number]}, key=lambda key: key[0])
        trials = [
            Trial(key[0], key[1], *self._trials[key])
            for key in keys
            if not any(self.exposure(part, _widest(part), key[0], key[1]) >= 1 for part in settled)
        ]
        passes = np.array([trial.passes for trial in trials], dtype=float)
        fails = np.array([trial.fails for trial in trials], dtype=float)
        faults: list[Fault] = []
        rows: list[np.ndarray] = []
        priors: list[float] = []
        table = _Exposures(self, trials)
        for part in parts:
            for scope, prior in PRIORS[part.kind].items():
                exposed = table.of(part, scope)
                if not (exposed * fails).any():
                    continue
                if part.kind is Kind.LINK and known_links:
                    prior = min(prior * LINK_BUNCH, 5e-3)
                if part.kind is Kind.CUT:
                    prior *= 2.0 ** (1 - min(len(set(self._hosts)), 1000))
                for rate, share in RATES.items():
                    if prior * share < LEAST_PRIOR and part.kind is not Kind.CUT:
                        continue
                    faults.append(Fault(part, scope, rate))
                    rows.append(exposed * rate)
                    priors.append(math.log(prior * share))
        found, evidence = _search(faults, np.array(rows), np.array(priors), passes, fails)
        named = {fault: column for column, fault in enumerate({f: None for each in found for f in each.faults})}
        names = np.zeros((len(found), len(named)))
        for row, each in enumerate(found):
            names[row, [named[fault] for fault in each.faults]] = 1.0
        return Cluster(failed=tuple(failed), explanations=found, faults=tuple(named), names=names, evidence=evidence)


Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


class _Exposures:
    """`Belief.exposure` of a part in each of `trials`, devices and links for all of them at once."""

    def __init__(self, belief: Belief, trials: Sequence[Trial]) -> None:
        self._belief = belief
        self._trials = trials
        self._sizes = np.array([len(trial.devices) for trial in trials])
        numbers = sorted({number for trial in trials for number in trial.devices})
        self._column = {number: column for column, number in enumerate(numbers)}
        self._holds = np.zeros((len(trials), len(numbers)), dtype=bool)
        for row, trial in enumerate(trials):
            self._holds[row, [self._column[number] for number in trial.devices]] = True
        # The share of its links that each trial uses; a ring's are looked up one by one.
        used = {Links.ALL: 1.0, Links.NONE: 0.0}
        self._used = np.array(
            [
                used.get(trial.links, UNKNOWN_USE if len(trial.devices) > 2 else 1.0)
                if trial.links is not None
                else (UNKNOWN_USE if len(trial.devices) > 2 else 1.0)
                for trial in trials
            ]
        )
        self._rings = [row for row, trial in enumerate(trials) if trial.links is Links.RING and len(trial.devices) > 2]
        self._edges = {row: {frozenset(edge) for edge in _ring(trials[row].devices)} for row in self._rings}

    def of(self, part: Part, scope: Scope) -> Floats:
        """One value for each trial."""
        if part.kind is Kind.DEVICE:
            held: Floats = (self._holds[:, self._column[int(part.key[0])]] & (self._sizes >= scope.least)).astype(float)
            return held
        if part.kind is Kind.LINK:
            a, b = (int(number) for number in part.key)
            both = self._holds[:, self._column[a]] & self._holds[:, self._column[b]]
            shares: Floats = both * self._used
            for row in self._rings:
                shares[row] = float(frozenset((a, b)) in self._edges[row])
            return shares
        return np.array([self._belief.exposure(part, scope, trial.devices, trial.links) for trial in self._trials])


def sorted_side(hosts: Iterable[str]) -> tuple[str, ...]:
    """The hosts of a side as a cut's key has them."""
    return tuple(sorted(hosts))


def _widest(part: Part) -> Scope:
    return Scope.ALWAYS if part.kind in (Kind.DEVICE, Kind.HOST) else Scope.TOGETHER


def _ring(devices: Set) -> list[tuple[int, int]]:
    return [(a, devices[(i + 1) % len(devices)]) for i, a in enumerate(devices)]


def _search(
    faults: list[Fault], shows: np.ndarray, priors: np.ndarray, passes: np.ndarray, fails: np.ndarray
) -> tuple[tuple[Explanation, ...], float]:
    """The likeliest sets of faults, and the logarithm of what they are worth together.

    `shows`: fault x trial, the chance that the fault shows in one try of it.

    A link of a set that may or may not use it explains a failure, and a pass clears it of nothing.
    """
    shown = np.log1p(-np.clip(shows, 0.0, 0.9999))
    # Where the use of a link is unknown its rate is halved in `shows`; a pass then says nothing against it.
    silent = np.array([[fault.part.kind in (Kind.LINK, Kind.CABLE)] for fault in faults])
    rates = np.array([[fault.rate] for fault in faults])
    cleared = np.where(silent & (shows < rates) & (shows > 0), 0.0, shown)

    def likelihood(log_unshown: np.ndarray, log_cleared: np.ndarray) -> np.ndarray:
        failing = 1 - (1 - SPURIOUS) * np.exp(log_unshown)
        value: np.ndarray = (fails * np.log(failing)).sum(-1) + (passes * (log_cleared + math.log1p(-SPURIOUS))).sum(-1)
        return value

    zero = np.zeros_like(passes)
    found: dict[tuple[int, ...], float] = {(): float(likelihood(zero, zero))}
    alone = priors + likelihood(shown, cleared)
    order = np.argsort(-alone)[:MAX_HYPOTHESES]
    for index in order:
        found[(int(index),)] = float(alone[index])
    second = order[:MAX_SECOND]
    gain = (shows > 0.0).astype(float) @ fails
    by_gain = np.argsort(-(priors + gain * -math.log(SPURIOUS) + (cleared * passes).sum(-1)))[:MAX_SECOND]
    pool = [int(index) for index in np.unique(np.concatenate([second, by_gain]))]
    beam: list[tuple[int, ...]] = [(int(index),) for index in order[:BEAM]]
    best = max(found.values())
    for _ in range(MAX_FAULTS - 1):
        grown: dict[tuple[int, ...], float] = {}
        for base in beam:
            used = {faults[index].part for index in base}
            rest = [index for index in pool if faults[index].part not in used]
            scores = (
                priors[rest]
                + priors[list(base)].sum()
                + likelihood(shown[list(base)].sum(0) + shown[rest], cleared[list(base)].sum(0) + cleared[rest])
            )
            for place in np.flatnonzero(scores > best - 12):
                grown[tuple(sorted((*base, rest[place])))] = float(scores[place])
        if not grown:
            break
        found |= grown
        top = max(grown.values())
        beam = sorted(grown, key=grown.__getitem__, reverse=True)[:BEAM]
        if top < best - 5:
            break
        best = max(best, top)
    return _normalised(faults, found)


def _normalised(faults: list[Fault], found: dict[tuple[int, ...], float]) -> tuple[tuple[Explanation, ...], float]:
    best = max(found.values())
    kept = {key: math.exp(score - best) for key, score in found.items() if score > best - 14}
    total = sum(kept.values())
    explanations = [Explanation(tuple(faults[index] for index in key), weight / total) for key, weight in kept.items()]
    best_first = sorted(explanations, key=lambda each: -each.weight)
    return tuple(best_first[:MAX_EXPLANATIONS]), best + math.log(total)
