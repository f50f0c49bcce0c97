"""Batch sums: global batch = micro-batch x accumulation x dp, all in samples.

[Note: batch sums]
Any two of the four determine the rest. What two leave open gets the least it can be, in this order: dp 1, then
accumulation 1, then micro_batch 1. A launcher always knows dp (what tp and pp leave of the ranks), so that there one
more value is enough. Three or four must agree.
"""

from dataclasses import dataclass
from math import prod

from emberward.findings import ConfigError
from emberward.plan._ramp import Ramp, RampPhase, ramp_batch, ramp_phases

_KEYS = {
    "global_batch": "batch.global_batch",
    "micro_batch": "batch.micro_batch",
    "accumulation": "batch.accumulation",
    "dp": "layout.dp",
}
_FACTORS = ("micro_batch", "accumulation", "dp")
_LEAST_FIRST = ("dp", "accumulation", "micro_batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Sums that fit: global_batch = micro_batch x accumulation x dp. With `ramp_up` they hold after the ramp."""

    global_batch: int
    micro_batch: int
    accumulation: int
    dp: int
    ramp_up: Ramp | None = None

    def batch_at(self, consumed_samples: int) -> int:
        """Global batch of the step that begins after `consumed_samples`."""
        if self.ramp_up is None:
            return self.global_batch
        return ramp_batch(self.ramp_up, self.global_batch, consumed_samples)

    def accumulation_at(self, consumed_samples: int) -> int:
        """Micro-batches that each dp rank does in the step that begins after `consumed_samples`."""
        return self.batch_at(consumed_samples) // (self.micro_batch * self.dp)

    def phases(self) -> tuple[RampPhase, ...]:
        """Runs of steps with one global batch, in order; one phase without a ramp-up."""
        if self.ramp_up is None:
            return (RampPhase(global_batch=self.global_batch, first_step=0, num_steps=None, first_sample=0),)
        return ramp_phases(self.ramp_up, self.global_batch)

    def steps_for(self, num_samples: int) -> int:
        """Whole steps that fit into `num_samples`; a part of a step at the end is left out, as Megatron does."""
        for phase in self.phases():
            steps = max(0, num_samples - phase.first_sample) // phase.global_batch
            if phase.num_steps is None or steps < phase.num_steps:
                return phase.first_step + steps
        raise AssertionError("the last phase has no end")

    def samples_after(self, num_steps: int) -> int:
        """Samples consumed once `num_steps` steps are done."""
        last = [phase for phase in self.phases() if phase.first_step <= num_steps][-1]
        return last.first_sample + (num_steps - last.first_step) * last.global_batch

    def explain(self) -> str:
        """The sums as a person reads them, one line, and one more for the ramp-up."""
        lines = [
            f"global_batch {self.global_batch:,} = micro_batch {self.micro_batch:,} "
            f"x accumulation {self.accumulation:,} x dp {self.dp:,}"
        ]
        if self.ramp_up is not None:
            ramp, last = self.ramp_up, self.phases()[-1]
            num_increments = (self.global_batch - ramp.start) // ramp.increment
            lines.append(
                f"ramp-up {ramp.start:,} + {num_increments:,} x {ramp.increment:,} = {self.global_batch:,}, "
                f"one increment each {ramp.samples / num_increments:,.1f} samples: "
                f"accumulation {self.accumulation_at(0):,} to {self.accumulation:,}, "
                f"full after {last.first_step:,} steps and {last.first_sample:,} samples"
            )
        return "\n".join(lines)


def solve_batch(
    *,
    global_batch: int | None = None,
    micro_batch: int | None = None,
    accumulation: int | None = None,
    dp: int | None = None,
    ramp_up: Ramp | None = None,
) -> BatchPlan:
    """The plan that the given values determine. See [Note: batch sums].

    Raises ConfigError C103 for a value below 1 and C105, with the nearest legal values, for sums that do not fit.
    """
    given = {"global_batch": global_batch, "micro_batch": micro_batch, "accumulation": accumulation, "dp": dp}
    known = {name: value for name, value in given.items() if value is not None}
    for name, value in known.items():
        if value < 1:
            raise ConfigError(f"{_KEYS[name]} is out of range", code="C103", expected="at least 1", found=str(value))
    if len(known) < 2:
        raise ConfigError(
            "the batch is not determined",
            code="C105",
            expected="two of global_batch, micro_batch, accumulation and dp; they give the rest",
            found=_values(known) or "none of them",
            next="batch.global_batch=32 batch.micro_batch=4",
        )
    factors = {name: known[name] for name in _FACTORS if name in known}
    if global_batch is None:
        factors = {name: factors.get(name, 1) for name in _FACTORS}
    else:
        factors = _factorise(global_batch, factors)
    plan = BatchPlan(
        global_batch=prod(factors.values()),
        micro_batch=factors["micro_batch"],
        accumulation=factors["accumulation"],
        dp=factors["dp"],
        ramp_up=ramp_up,
    )
    if ramp_up is not None:
        _require_ramp(plan, ramp_up)
    return plan


def _factorise(global_batch: int, factors: dict[str, int]) -> dict[str, int]:
    """All three factors of `global_batch`, given at least one of them. Raises ConfigError C105."""
    product = prod(factors.values())
    missing = [name for name in _LEAST_FIRST if name not in factors]
    if global_batch % product or (not missing and product != global_batch):
        raise _no_fit(global_batch, factors)
    whole = dict(factors)
    for name in missing[:-1]:
        whole[name] = 1
    if missing:
        whole[missing[-1]] = global_batch // product
    return whole


def _no_fit(global_batch: int, factors: dict[str, int]) -> ConfigError:
    product = prod(factors.values())
    sums = " x ".join(f"{name} {value}" for name, value in factors.items())
    options = []
    complete = len(factors) == len(_FACTORS)
    legal = [product] if complete else _multiples_near(global_batch, product)
    options.append(_option("global_batch", legal))
    for name, value in factors.items():
        rest = product // value
        if name == "dp" or global_batch % rest:
            continue
        quotient = global_batch // rest
        options.append(_option(name, [quotient] if complete else _divisors_near(quotient, value)))
    return ConfigError(
        "the batch sums do not fit",
        code="C105",
        expected=f"global_batch = micro_batch x accumulation x dp; {' or '.join(options)}",
        found=f"global_batch {global_batch}, but {sums}"
        + (
            f" = {product}"
            if complete
            else f" = {product}, and {global_batch} / {product} = {global_batch / product:g}"
        ),
        next=f"{_KEYS['global_batch']}={legal[-1]}",
    )


def _option(name: str, values: list[int]) -> str:
    return f"{name} " + " or ".join(map(str, values))


def _multiples_near(value: int, step: int) -> list[int]:
    """The multiples of `step` right below (when positive) and right above `value`."""
    below = value // step * step
    return [multiple for multiple in (below, below + step) if multiple > 0]


def _divisors_near(number: int, value: int, *, max_distance: int = 100_000) -> list[int]:
    """The divisors of `number` right below and right above `value`, at most `max_distance` away."""
    low, high = max(1, value - max_distance), min(number, value + max_distance)
    below = next((d for d in range(min(value, number), low - 1, -1) if number % d == 0), None)
    above = next((d for d in range(value, high + 1) if number % d == 0), None)
    return sorted({d for d in (below, above) if d is not None})


def _values(known: dict[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in known.items())


def _require_ramp(plan: BatchPlan, ramp: Ramp) -> None:
    """Raises ConfigError unless every batch of the ramp can be cut into micro-batches for all dp ranks."""
    for name, value in (("start", ramp.start), ("increment", ramp.increment), ("samples", ramp.samples)):
        if value < 1:
            raise ConfigError(
                f"batch.ramp_up.{name} is out of range", code="C103", expected="at least 1", found=str(value)
            )
    unit = plan.micro_batch * plan.dp
    for name, value in (("start", ramp.start), ("increment", ramp.increment)):
        if value % unit:
            legal = _multiples_near(value, unit)
            raise ConfigError(
                "a batch of the ramp-up cannot be cut into micro-batches",
                code="C105",
                expected=f"ramp_up.{name} a multiple of micro_batch x dp = {plan.micro_batch} x {plan.dp} = {unit}, "
                f"as {' or '.join(map(str, legal))}",
                found=f"ramp_up.{name} {value}",
                next=f"batch.ramp_up.{name}={legal[-1]}",
            )
    growth = plan.global_batch - ramp.start
    if growth <= 0 or growth % ramp.increment:
        start = plan.global_batch - max(1, round(growth / ramp.increment)) * ramp.increment
        raise ConfigError(
            "the ramp-up does not end at the global batch",
            code="C105",
            expected=f"ramp_up.start + whole increments of {ramp.increment} = global_batch {plan.global_batch}"
            + (f", as ramp_up.start {start}" if start > 0 else ""),
            found=f"ramp_up.start {ramp.start} and increment {ramp.increment}",
            next=None if start <= 0 else f"batch.ramp_up.start={start}",
        )
