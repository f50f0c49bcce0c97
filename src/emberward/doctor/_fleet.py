"""What is examined, and what a test of it gave: values that planner, runner and report share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """One device of a host, written ``host:3``."""

    host: str
    index: int

    def __str__(self) -> str:
        return f"{self.host}:{self.index}"


class SetOutcome(StrEnum):
    """How a test of a set ended. `BUSY`: a member was in use, so that nothing follows for the others."""

    PASS = "pass"
    FAIL = "fail"
    BUSY = "busy"


class Links(StrEnum):
    """Which links between its members a test used, as its probe says it."""

    ALL = "all"
    RING = "ring"
    NONE = "none"


class Talk(StrEnum):
    """On which sets a probe makes sense: one device alone, two or more, or any."""

    ALONE = "alone"
    TOGETHER = "together"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The devices in a fixed order, and the path of switches below which each host stands (leaf first)."""

    devices: tuple[Device, ...]
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, hosts: Sequence[str], devices_per_host: int, switches: Mapping[str, tuple[str, ...]] | None = None
    ) -> "Fleet":
        """`devices_per_host` devices on each of `hosts`."""
        found = tuple(Device(host, index) for host in hosts for index in range(devices_per_host))
        return cls(devices=found, switches=dict(switches or {}))

    def __len__(self) -> int:
        return len(self.devices)


Set = tuple[int, ...]
"""Devices of a fleet by their number, in the order of their ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one test of a set gave.

    `values`: by device number, what each member measured. `reports`: by device number, how each member ended, in words.
    `failed`: the members whose own end was a failure. `details`: by device number, what each that was well said beside
    its answer. `seconds`: of the whole test, start included.
    """

    devices: Set
    outcome: SetOutcome
    seconds: float
    values: Mapping[int, float] = field(default_factory=dict)
    unit: str = ""
    higher_is_better: bool = True
    busy: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    reports: Mapping[int, str] = field(default_factory=dict)
    details: Mapping[int, str] = field(default_factory=dict)
    links: Links | None = None
    tries: int = 1

    @property
    def value(self) -> float | None:
        """The worst member's value; None when a member gave none."""
        if len(self.values) < len(self.devices):
            return None
        return min(self.values.values()) if self.higher_is_better else max(self.values.values())
