"""Which units of FSDP's are parts of one block, and which it kept as it was asked to. Pure.

[Note: units of a block]
A unit is gathered whole before it is used, so what is used together is cheapest as one unit: a block of the model, an
element of a numbered list (``layers.3``). Where layers without layers of their own (a projection, a norm) are units
inside of one block, two or more, each has the start of a gather and of a scatter of its own, whatever its size. Of
their cost, what is start goes for all but one in each block: by the line through the times of the smallest and the
largest of them. An expert or a stage that has layers of its own is a block.

``reshard_after_forward=False`` keeps a unit from its forward to the end of its first use in the backward. What is
gathered of it after that, because it is used more than once, FSDP freed with the first gradient: no such setting keeps
it, and nothing of it is gathered twice for want of one.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping

from emberward.lens._operations import RankOperations

Span = tuple[float, float]
MIN_PARTS = 2
"""Units in one block, from which it is cut."""


def blocks_of(units: Iterable[str], parameters: Iterable[str]) -> dict[str, str]:
    """Of each unit that is a part of a block with other such parts: the block."""
    named = {*units} - {""}
    held: dict[str, list[str]] = defaultdict(list)
    for name in parameters:
        parts = name.split(".")
        for size in range(1, len(parts)):
            if (owner := ".".join(parts[:size])) in named:
                held[owner].append(name.removeprefix(f"{owner}."))
    found: dict[str, str] = {}
    for unit, names in held.items():
        parts = unit.split(".")
        numbered = [index for index, part in enumerate(parts[:-1]) if part.isdigit()]
        if numbered and all("." not in name for name in names):
            found[unit] = ".".join(parts[: numbered[-1] + 1])
    sizes = {block: sum(other == block for other in found.values()) for block in found.values()}
    return {unit: block for unit, block in found.items() if sizes[block] >= MIN_PARTS}


def start_share(spent_s: Mapping[str, float], num_bytes: Mapping[str, int]) -> float:
    """Which share of the units' time is start: a of t = a + n / b, through the smallest and the largest ones.

    Of one size alone nothing tells the two apart, and half is taken for start.
    """
    by_size: dict[int, list[float]] = defaultdict(list)
    for unit, seconds in spent_s.items():
        by_size[num_bytes[unit]].append(seconds)
    mean = statistics.fmean(spent_s.values()) if spent_s else 0.0
    if mean <= 0:
        return 0.0
    small, large = min(by_size), max(by_size)
    if small == large:
        return 0.5
    first, last = statistics.fmean(by_size[small]), statistics.fmean(by_size[large])
    start = first - max(last - first, 0.0) / (large - small) * small
    return min(max(start / mean, 0.0), 1.0)


def spans_by_unit(rank: RankOperations) -> dict[str, list[Span]]:
    """When the training thread does FSDP's work of each unit."""
    found: dict[str, list[Span]] = defaultdict(list)
    for op in rank.operations:
        if op.thread == rank.main and not op.is_async and op.name.startswith("FSDP::") and op.name.endswith(")"):
            found[op.name.rpartition("(")[2].rstrip(")")].append((op.began_s, op.ended_s))
    return found


def could_keep_until(unit: str, rank: RankOperations, step: int) -> float | None:
    """The end of a unit's first use in a step's backward; None where none is seen."""
    begin, end = rank.bounds_s[step], rank.bounds_s[step + 1]
    name = f"FSDP::pre_backward ({unit})" if unit else "FSDP::pre_backward"
    return min((op.ended_s for op in rank.operations if op.name == name and begin <= op.began_s < end), default=None)
