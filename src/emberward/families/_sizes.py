"""Numbers as messages show them, and what several families say of sizes that do not fit."""

import math
from collections.abc import Iterator, Mapping

from emberward.families._config import ModelConfig
from emberward.families._family import Misfit, WorkedOut

_VOCAB_MULTIPLE = 128
"""Padding that any usual tp divides, so that a run keeps its embedding when its layout changes."""


ALIBI_ADDED_WIDTH = 8
"""Columns that ALiBi adds to q, k and v where it is folded: four, and so many that kernels take the width."""
ALIBI_FOLDED_FROM = 1024
"""Positions from which attention with ALiBi takes less time folded than with a mask, forward and backward, in fp32 and
bf16 (docs/measured/attention.json)."""


def folds_alibi(positions: int) -> bool:
    """Whether attention over so many positions has ALiBi in q and k, and no mask: `alibi.py` [Note: folded ALiBi]."""
    return positions >= ALIBI_FOLDED_FROM


def divisors(number: int) -> list[int]:
    """Its divisors, ascending."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def near_multiples(value: int, step: int) -> str:
    """The multiples of `step` right below (when positive) and right above `value`, as a message shows them."""
    below = value // step * step
    return " or ".join(str(each) for each in (below, below + step) if each > 0)


def near_divisors(number: int, value: int) -> str:
    """The divisors of `number` right below and right above `value`, as a message shows them."""
    found = divisors(number)
    below = [d for d in found if d < value][-1:]
    above = [d for d in found if d > value][:1]
    return " or ".join(map(str, below + above))


def heads_misfit(config: ModelConfig) -> Iterator[Misfit]:
    """Whether the heads divide the width."""
    if config.hidden % config.num_heads:
        near = near_multiples(config.hidden, config.num_heads)
        yield Misfit(
            what="the heads do not divide the width",
            expected=f"model.hidden a multiple of model.num_heads, as {near}",
            names=("model.hidden", "model.num_heads"),
        )


def tp_misfits(sizes: Mapping[str, int | None], tp: int) -> Iterator[Misfit]:
    """Which of the sizes, by their keys below ``model.``, tp does not divide."""
    for name, value in sizes.items():
        if value is not None and value % tp:
            yield Misfit(
                what="tensor parallel cannot split the model",
                expected=f"model.{name} a multiple of layout.tp, as {near_multiples(value, tp)}; "
                f"or layout.tp {near_divisors(value, tp)}",
                names=(f"model.{name}", "layout.tp"),
            )


def padded_vocabulary(tokenizer_size: int, tp: int, *, num_more: int = 0) -> WorkedOut:
    """Rows of an embedding that tp divides, with `num_more` tokens that the tokenizer does not have."""
    unit = math.lcm(_VOCAB_MULTIPLE, tp)
    padded = -(-(tokenizer_size + num_more) // unit) * unit
    more = f" and {num_more} more" if num_more else ""
    reason = f"the tokenizer's {tokenizer_size}{more}, padded to a multiple of {unit}"
    return WorkedOut(name="vocab_size", value=padded, reason=reason)
