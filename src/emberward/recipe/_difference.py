"""What differs between two recipes, and whether it changes the curve of the training."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from emberward.recipe._recipe import ComputeType, Recipe, Source
from emberward.recipe._schema import leaves

# Reporting, saving and evaluating take nothing from the training's random numbers and give nothing back to it.
_HARMLESS = frozenset({"name", "timeout_s", "sample_prompt", "sample_tokens", "data.cache", "data.prefetch"})
_HARMLESS_SECTIONS = ("log.", "save.", "evaluation.", "health.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key with other values in `a` and `b`; None also where one of them has no such key (batch.ramp_up.*).

    `harmless`: the loss of every step that both runs do stays what it was, bit for bit. A layout, a device or
    a schedule is not harmless: it changes the order of sums.
    """

    key: str
    a: object
    b: object
    harmless: bool


def differences(a: Recipe, b: Recipe) -> tuple[Difference, ...]:
    """Every key in which the recipes differ, in the order of the keys. Compare resolved recipes.

    Harmless are: name, log.*, save.*, evaluation.*, timeout_s, sample_*, data.cache, data.prefetch, the names of
    data.train, model.recompute (the same numbers, computed again), precision.loss_scale* unless fp16 uses them, and
    steps and train_samples where optim.decay_samples is given: where the run ends, not what it does.
    """
    left, right = leaves(a), leaves(b)
    names = list(dict.fromkeys([*left, *right]))
    found = []
    for name in names:
        old, new = left.get(name), right.get(name)
        if old != new or (name in left) != (name in right):
            found.append(Difference(key=name, a=old, b=new, harmless=_harmless(name, a, b)))
    return tuple(found)


def _harmless(name: str, a: Recipe, b: Recipe) -> bool:
    if name in _HARMLESS or name.startswith(_HARMLESS_SECTIONS) or name == "model.recompute":
        return True
    decide = _SOMETIMES.get(name)
    return decide is not None and decide(a, b)


def _both_decays_given(a: Recipe, b: Recipe) -> bool:
    return a.optim.decay_samples is not None and b.optim.decay_samples is not None


def _neither_is_fp16(a: Recipe, b: Recipe) -> bool:
    return ComputeType.FP16 not in (a.precision.compute, b.precision.compute)


def _only_names_differ(a: Recipe, b: Recipe) -> bool:
    def nameless(sources: tuple[Source, ...]) -> list[Source]:
        return [replace(source, name=None) for source in sources]

    return nameless(a.data.train) == nameless(b.data.train)


_SOMETIMES: dict[str, Callable[[Recipe, Recipe], bool]] = {
    "steps": _both_decays_given,
    "train_samples": _both_decays_given,
    "precision.loss_scale": _neither_is_fp16,
    "precision.loss_scale_window": _neither_is_fp16,
    "data.train": _only_names_differ,
}
