"""Parts that can be faulty, faults, and sets of faults that explain failed tests, each with its posterior."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from emberward.doctor._fleet import Links, Set


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


LINKS = frozenset({Kind.LINK, Kind.CABLE, Kind.CUT})
"""What lies between devices."""
ACQUITTED = 0.9
"""Chance is taken for the reason of a failure from here on; what else it may be is listed as open."""
CONSTANT = 0.9
"""A fault with a higher rate always shows."""


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
    tries: int
    """Passed tries of the devices of the failed tests when it was judged."""
    posterior: dict[Part, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.explanations:
            for part in each.parts:
                self.posterior[part] = self.posterior.get(part, 0.0) + each.weight

    def marginals(self) -> dict[Part, float]:
        """The posterior of each part that some explanation names."""
        return self.posterior

    @property
    def is_chance(self) -> bool:
        """Whether no part is to blame, sure enough to ask no further."""
        return not self.explanations[0].faults and self.explanations[0].weight >= ACQUITTED

    def rates(self, part: Part) -> dict[float, float]:
        """rate -> posterior that the part fails in that share of its tries, of the explanations that name it."""
        weights: dict[float, float] = defaultdict(float)
        for each in self.explanations:
            for fault in each.faults:
                if fault.part == part:
                    weights[fault.rate] += each.weight
        total = sum(weights.values())
        return {rate: weight / total for rate, weight in weights.items()}

    def is_plain(self, part: Part) -> bool:
        """Whether it always fails, in sets of two already, where it is named; true where it is not."""
        return self._share(part, lambda fault: fault.rate > CONSTANT and fault.scope.least <= 2)

    def is_faint_part(self, part: Part) -> bool:
        """Whether it likelier fails now and then than always, where it fails."""
        return not self._share(part, lambda fault: fault.rate > CONSTANT)

    def _share(self, part: Part, holds: Callable[[Fault], bool]) -> bool:
        named = [(each.weight, fault) for each in self.explanations for fault in each.faults if fault.part == part]
        return 2 * sum(weight for weight, fault in named if holds(fault)) >= sum(weight for weight, _ in named)

    def is_like_links(self, part: Part) -> bool:
        """Whether some links of a device would explain nearly the same tests as the device itself.

        Not when it failed alone, nor when one set with it both failed and passed: a bad link does not come and go.
        """
        if part.kind is not Kind.DEVICE or self.is_plain(part):
            return False
        held = [trial for trial in self.failed if part.key[0] in trial.devices]
        return not any(len(trial.devices) == 1 or (trial.passes and trial.fails) for trial in held)

    @property
    def is_faint(self) -> bool:
        """Whether it is likelier chance, or a fault that shows now and then, than one that always shows."""
        constant = (each for each in self.explanations if each.faults and min(f.rate for f in each.faults) > CONSTANT)
        return sum(each.weight for each in constant) < 0.5

    @property
    def links_weight(self) -> float:
        """The posterior that links alone explain it."""
        return sum(
            each.weight
            for each in self.explanations
            if each.faults and all(fault.part.kind in LINKS for fault in each.faults)
        )
