"""Batch ramp-up: the global batch as a function of the samples consumed so far.

[Note: ramp]
Megatron's rule (megatron/core/num_microbatches_calculator.py, ``--rampup-batch-size START INCREMENT SAMPLES``): up to
and including SAMPLES consumed samples the batch is START + INCREMENT x int(consumed / (SAMPLES / num_increments)),
after that it is the full global batch. We keep its floating-point division, so that the sequence of batches is
Megatron's to the last step: the ramp 192 16 9_765_625 to 2048 gives BLOOM-176B's 9,841,584 consumed samples after
iteration 12,695 and its 115,311 iterations for 220 million samples.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol


class Ramp(Protocol):
    """What a ramp-up is made of, in samples. See [Note: ramp]."""

    @property
    def start(self) -> int:
        """Global batch at the first step."""

    @property
    def increment(self) -> int:
        """What each increment adds to the global batch."""

    @property
    def samples(self) -> int:
        """Consumed samples over which the batch grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RampPhase:
    """Steps that share one global batch. `num_steps` None: until the end of the run. Steps count from 0."""

    global_batch: int
    first_step: int
    num_steps: int | None
    first_sample: int


def ramp_batch(ramp: Ramp, global_batch: int, consumed_samples: int) -> int:
    """Global batch of the step that begins after `consumed_samples`. See [Note: ramp]."""
    return _batch_at(ramp.start, ramp.increment, ramp.samples, global_batch, consumed_samples)


def _batch_at(start: int, increment: int, samples: int, global_batch: int, consumed_samples: int) -> int:
    if consumed_samples > samples:
        return global_batch
    num_increments = (global_batch - start) // increment
    reached = int(consumed_samples / (samples / num_increments))
    return min(start + reached * increment, global_batch)


def ramp_phases(ramp: Ramp, global_batch: int) -> tuple[RampPhase, ...]:
    """The phases of the ramp in order; the last one has the full global batch and no end."""
    return _phases(ramp.start, ramp.increment, ramp.samples, global_batch)


@lru_cache(maxsize=64)
def _phases(start: int, increment: int, samples: int, global_batch: int) -> tuple[RampPhase, ...]:
    return tuple(_walk(start, increment, samples, global_batch))


def _walk(start: int, increment: int, samples: int, global_batch: int) -> Iterator[RampPhase]:
    """Each phase, found by a jump to its end and not step by step: a ramp may have billions of steps."""
    per_increment = samples / ((global_batch - start) // increment)
    consumed, step, batch = 0, 0, start
    while batch < global_batch:
        end = ((batch - start) // increment + 1) * per_increment
        num_steps = max(1, math.ceil((end - consumed) / batch))
        # The estimate is off by one where the division in _batch_at rounds the other way.
        while (
            num_steps > 1
            and _batch_at(start, increment, samples, global_batch, consumed + (num_steps - 1) * batch) > batch
        ):
            num_steps -= 1
        while _batch_at(start, increment, samples, global_batch, consumed + num_steps * batch) == batch:
            num_steps += 1
        yield RampPhase(global_batch=batch, first_step=step, num_steps=num_steps, first_sample=consumed)
        step += num_steps
        consumed += num_steps * batch
        batch = _batch_at(start, increment, samples, global_batch, consumed)
    yield RampPhase(global_batch=global_batch, first_step=step, num_steps=None, first_sample=consumed)
