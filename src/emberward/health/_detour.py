"""Detours: a rewind to a save, and what the steps after it do differently. Pure; the run's folder keeps the list.

[Note: detours]
A detour says: after the save of `step`, samples go on `skip_samples` later, and for `lr_steps` steps the learning rate
is multiplied by `lr_scale`. Steps, consumed samples, ramp-up and decay count what was trained, and skipped samples are
not counted: only *which* samples are read is shifted. So the list and a save's position decide every later step, and a
resume repeats it. A detour is undone by taking it off the end of the list and putting the saves back that it set aside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Detour:
    """One rewind. `step` and `consumed_samples` are the save's; `from_step` is how far the run had come.

    `number` counts a run's rewinds from 1, undone ones too, and names the folder in which what it set aside lies.
    """

    number: int
    step: int
    consumed_samples: int
    from_step: int
    skip_samples: int = 0
    lr_scale: float = 1.0
    lr_steps: int = 0

    def to_json(self) -> dict[str, Any]:
        """The detour as it stands in the run's ``detours.json`` and in each save after it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Detour":
        """The detour that `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            number=int(value["number"]),
            step=int(value["step"]),
            consumed_samples=int(value["consumed_samples"]),
            from_step=int(value["from_step"]),
            skip_samples=int(value["skip_samples"]),
            lr_scale=float(value["lr_scale"]),
            lr_steps=int(value["lr_steps"]),
        )

    def text(self) -> str:
        """One line for people."""
        parts = [f"rewound from step {self.from_step} to {self.step}"]
        if self.skip_samples:
            first = self.consumed_samples
            parts.append(f"skips the {self.skip_samples} samples after the first {first} trained")
        if self.lr_steps:
            parts.append(f"learning rate x {self.lr_scale:g} for {self.lr_steps} steps")
        return ", ".join(parts)


def skipped_before(detours: Sequence[Detour], consumed_samples: int) -> int:
    """Samples left out up to the step that begins after `consumed_samples` trained ones. See [Note: detours]."""
    return sum(each.skip_samples for each in detours if each.consumed_samples <= consumed_samples)


def rate_factor(detours: Sequence[Detour], step: int) -> float:
    """What the learning rate of the step that begins after `step` finished ones is multiplied by."""
    factor = 1.0
    for each in detours:
        if each.step <= step < each.step + each.lr_steps:
            factor *= each.lr_scale
    return factor
