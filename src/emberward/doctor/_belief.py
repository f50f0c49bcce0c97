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
    """What sort of part; a cable is all that two hosts have between them."""

    DEVICE = "device"
    HOST = "host"
    LINK = "link"
    CABLE = "cable"
    SWITCH = "switch"


class Scope(StrEnum):
    """In which sets a fault can show."""

    ALWAYS = "always"
    TOGETHER = "together"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A device (its number), a host, a link (two numbers), a cable (two hosts) or a switch."""

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
    Kind.DEVICE: {Scope.ALWAYS: 5e-3, Scope.TOGETHER: 5e-3},
    Kind.HOST: {Scope.ALWAYS: 1e-3, Scope.TOGETHER: 5e-4, Scope.OUTSIDE: 1.5e-3},
    Kind.LINK: {Scope.TOGETHER: 5e-4},
    Kind.CABLE: {Scope.OUTSIDE: 5e-4},
    Kind.SWITCH: {Scope.OUTSIDE: 2e-3},
}
LINK_BUNCH = 10.0
"""Once a link is known to be bad, others are this much likelier: a bad batch of cables, a bad board."""
MAX_LINK_SET = 16
"""Links are possible parts of a failed test of at most so many members: in a larger one there are too many."""
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
        hosts = {self._hosts[device] for device in devices}
        if (scope is Scope.TOGETHER and len(devices) < 2) or (scope is Scope.OUTSIDE and len(hosts) < 2):
            return 0.0
        match part.kind:
            case Kind.DEVICE:
                return float(part.key[0] in devices)
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
        for trial in failed:
            parts = set(self._possible(trial.devices))
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
        for part in parts:
            for scope, prior in PRIORS[part.kind].items():
                exposed = np.array([self.exposure(part, scope, trial.devices, trial.links) for trial in trials])
                if not (exposed * fails).any():
                    continue
                if part.kind is Kind.LINK and known_links:
                    prior = min(prior * LINK_BUNCH, 5e-3)
                for rate, share in RATES.items():
                    faults.append(Fault(part, scope, rate))
                    rows.append(exposed * rate)
                    priors.append(math.log(prior * share))
        found, evidence = _search(faults, np.array(rows), np.array(priors), passes, fails)
        return Cluster(failed=tuple(failed), explanations=found, evidence=evidence)


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
