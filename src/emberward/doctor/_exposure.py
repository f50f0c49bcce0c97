"""Which parts a test of a set exercises. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np

from emberward.doctor._faults import Kind, Part, Scope, Trial
from emberward.doctor._fleet import Fleet, Links, Set

MAX_LINK_SET = 16
"""Links are possible parts of a failed test of at most so many members: in a larger one there are too many."""
UNKNOWN_USE = 0.5
"""Share of its links that a set of three or more uses when its probe does not say which."""


class Parts:
    """The parts of a fleet, and what tests do with them."""

    def __init__(self, fleet: Fleet) -> None:
        self.host_of = [device.host for device in fleet.devices]
        self.several = {host for host, count in Counter(self.host_of).items() if count > 1}
        """The hosts of more than one device."""
        self._switches = fleet.switches

    def exposure(self, part: Part, scope: Scope, devices: Set, links: Links | None) -> float:
        """The share in which the test exercises the part: 1, 0, or UNKNOWN_USE for a link of a set that may use it."""
        if len(devices) < scope.least:
            return 0.0
        if part.kind is Kind.DEVICE:
            return float(part.key[0] in devices)
        hosts = {self.host_of[device] for device in devices}
        if scope is Scope.OUTSIDE and len(hosts) < 2:
            return 0.0
        match part.kind:
            case Kind.CUT:
                return float(not hosts.isdisjoint(part.key) and not hosts <= set(part.key))
            case Kind.HOST:
                return float(part.key[0] in hosts)
            case Kind.SWITCH:
                return float(part.key[0] in self.between(devices))
            case Kind.CABLE:
                if not set(part.key) <= hosts:
                    return 0.0
                if links is not None and links is not Links.ALL:
                    pairs = ring_of(devices) if links is Links.RING else []
                    return float(any({self.host_of[a], self.host_of[b]} == set(part.key) for a, b in pairs))
                return 1.0 if links is Links.ALL or len(hosts) == 2 else UNKNOWN_USE
            case Kind.LINK:
                if not set(part.key) <= set(devices):
                    return 0.0
                if links is Links.ALL or (len(devices) == 2 and links is not Links.NONE):
                    return 1.0
                if links is Links.RING:
                    return float(any({a, b} == set(part.key) for a, b in ring_of(devices)))
                return 0.0 if links is Links.NONE else UNKNOWN_USE

    def path(self, a: str, b: str) -> set[str]:
        """The switches between two hosts: up to the lowest that both stand below."""
        if not self._switches:
            return set()
        up, down = self._switches.get(a, ()), self._switches.get(b, ())
        common = next((switch for switch in up if switch in down), None)
        if common is None:
            return {*up, *down}
        return {*up[: up.index(common) + 1], *down[: down.index(common) + 1]}

    def between(self, devices: Set) -> set[str]:
        """The switches between the hosts of a set."""
        hosts = sorted({self.host_of[device] for device in devices})
        return {switch for a, b in combinations(hosts, 2) for switch in self.path(a, b)}

    def possible(self, devices: Set) -> Iterable[Part]:
        """The parts that may have made a test of this set fail."""
        for device in devices:
            yield Part(Kind.DEVICE, (device,))
        hosts = sorted({self.host_of[device] for device in devices})
        yield from (Part(Kind.HOST, (host,)) for host in hosts if host in self.several)
        if 2 <= len(devices) <= MAX_LINK_SET:
            yield from (Part(Kind.LINK, (min(a, b), max(a, b))) for a, b in combinations(devices, 2))
            if len(hosts) > 1:
                several = [host for host in hosts if host in self.several]
                yield from (Part(Kind.CABLE, pair) for pair in combinations(several, 2))
        if len(hosts) > 1:
            yield from (Part(Kind.SWITCH, (switch,)) for switch in sorted(self.between(devices)))


Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


class Exposures:
    """`Parts.exposure` of a part in each of `trials`, devices and links for all of them at once."""

    def __init__(self, parts: Parts, trials: Sequence[Trial]) -> None:
        self._parts = parts
        self._trials = trials
        self._sizes = np.array([len(trial.devices) for trial in trials])
        numbers = sorted({number for trial in trials for number in trial.devices})
        self._column = {number: column for column, number in enumerate(numbers)}
        self._holds = np.zeros((len(trials), len(numbers)), dtype=bool)
        for row, trial in enumerate(trials):
            self._holds[row, [self._column[number] for number in trial.devices]] = True
        self._none = np.zeros(len(trials), dtype=bool)
        self._hosts: dict[str, np.ndarray] = {}
        for number in numbers:
            host = parts.host_of[number]
            self._hosts[host] = self._hosts.get(host, self._none) | self._has(number)
        self._num_hosts = sum((has.astype(int) for has in self._hosts.values()), np.zeros(len(trials), dtype=int))
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
        self._edges = {row: {frozenset(edge) for edge in ring_of(trials[row].devices)} for row in self._rings}
        # All links between two hosts are used for certain where there are no other hosts.
        is_unknown = np.array([trial.links is None for trial in trials], dtype=bool)
        self._used_between = np.where(is_unknown & (self._num_hosts == 2), 1.0, self._used)
        host_of = parts.host_of
        self._host_edges = {
            row: {frozenset(host_of[n] for n in edge) for edge in self._edges[row]} for row in self._rings
        }

    def of(self, part: Part, scope: Scope) -> Floats:
        """One value for each trial."""
        match part.kind:
            case Kind.DEVICE:
                held: Floats = (self._has(int(part.key[0])) & (self._sizes >= scope.least)).astype(float)
                return held
            case Kind.LINK:
                a, b = (int(number) for number in part.key)
                shares: Floats = (self._has(a) & self._has(b)) * self._used
                for row in self._rings:
                    shares[row] = float(frozenset((a, b)) in self._edges[row])
                return shares
            case Kind.CABLE:
                between: Floats = (
                    self._has_host(str(part.key[0])) & self._has_host(str(part.key[1]))
                ) * self._used_between
                for row in self._rings:
                    between[row] = float(frozenset(part.key) in self._host_edges[row])
                return between
            case Kind.HOST:
                is_wide = self._num_hosts > 1 if scope is Scope.OUTSIDE else self._sizes >= scope.least
                host: Floats = (self._has_host(str(part.key[0])) & is_wide).astype(float)
                return host
            case Kind.CUT:
                side = sum((self._has_host(str(host)).astype(int) for host in part.key), np.zeros(len(self._trials)))
                cut: Floats = ((side > 0) & (side < self._num_hosts)).astype(float)
                return cut
            case Kind.SWITCH:
                crossed: Floats = np.array([part.key[0] in switches for switches in self._switches], dtype=float)
                return crossed

    @cached_property
    def _switches(self) -> list[set[str]]:
        """The switches between the hosts of each trial."""
        return [self._parts.between(trial.devices) for trial in self._trials]

    def _has(self, number: int) -> np.ndarray:
        column = self._column.get(number)
        return self._none if column is None else self._holds[:, column]

    def _has_host(self, host: str) -> np.ndarray:
        return self._hosts.get(host, self._none)


def used_by(devices: Set, links: Links | None) -> Iterable[tuple[int, int]]:
    """The pairs whose links a test of the set uses for certain."""
    if links is Links.NONE or (links is None and len(devices) > 2):
        return ()
    return ring_of(devices) if links is Links.RING and len(devices) > 2 else combinations(devices, 2)


def ring_of(devices: Set) -> list[tuple[int, int]]:
    return [(a, devices[(i + 1) % len(devices)]) for i, a in enumerate(devices)]
