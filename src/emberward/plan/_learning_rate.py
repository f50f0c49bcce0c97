"""The learning rate as a pure function of the samples consumed."""

import math
from typing import Protocol


class RatePlan(Protocol):
    """What the learning rate is made of; `recipe.OptimConfig` is one."""

    @property
    def lr(self) -> float:
        """Highest rate, reached at the end of the warm-up."""

    @property
    def lr_min(self) -> float:
        """Rate at and after the end of the decay."""

    @property
    def warmup_samples(self) -> int:
        """Samples over which the rate rises from 0."""

    @property
    def decay_samples(self) -> int | None:
        """Consumed samples at which the rate has reached `lr_min`; None is the end of the run."""


def learning_rate(optim: RatePlan, consumed_samples: int, total_samples: int) -> float:
    """The rate at `consumed_samples` of a run of `total_samples`: a linear warm-up, then a cosine, then `lr_min`.

    Pass the samples consumed once the step is done: then no step runs at a rate of 0, and the value is the one that
    Megatron-DeepSpeed prints on that step's line (it sets the rate after each step, so its first step runs at 0).
    Source: Megatron-DeepSpeed megatron/learning_rates.py, `AnnealingLR.get_lr`, cosine of Loshchilov and Hutter 2017.
    """
    decay_samples = total_samples if optim.decay_samples is None else optim.decay_samples
    if consumed_samples <= optim.warmup_samples and optim.warmup_samples > 0:
        return optim.lr * consumed_samples / optim.warmup_samples
    if consumed_samples >= decay_samples:
        return optim.lr_min
    progress = (consumed_samples - optim.warmup_samples) / (decay_samples - optim.warmup_samples)
    return optim.lr_min + (optim.lr - optim.lr_min) * 0.5 * (math.cos(math.pi * progress) + 1.0)
