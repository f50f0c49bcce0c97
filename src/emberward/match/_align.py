"""Says how one sequence of calls departs from another: one call replaced, calls missing, or calls extra."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

MAX_SHIFT = 64
"""Most calls that are tried as missing or extra at one place; a sequence that merely ends early has no such bound."""
WINDOW = 512
"""Most calls that are compared behind the place."""


class DepartureKind(StrEnum):
    """What the odd sequence did at the place where it leaves the reference."""

    DIFFERENT = "different"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True, slots=True)
class Departure:
    """The odd sequence leaves the reference at `index`: `count` calls are different, missing or extra."""

    kind: DepartureKind
    index: int
    count: int


def _agreement(left: Sequence[int], i: int, right: Sequence[int], j: int) -> tuple[bool, int]:
    """(both end together, length of the common run) of left[i:] and right[j:], at most WINDOW long."""
    n = 0
    while i + n < len(left) and j + n < len(right) and n < WINDOW and left[i + n] == right[j + n]:
        n += 1
    return (i + n == len(left) and j + n == len(right)) or n == WINDOW, n


def first_difference(odd: Sequence[object], reference: Sequence[object]) -> int | None:
    """Index of the first difference, None when they are equal; a sequence that ends early differs at its end."""
    for index, (a, b) in enumerate(zip(odd, reference, strict=False)):
        if a != b:
            return index
    return None if len(odd) == len(reference) else min(len(odd), len(reference))


def depart(odd: Sequence[int], reference: Sequence[int], *, lines: tuple[Sequence[int], Sequence[int]]) -> Departure:
    """How `odd` first leaves `reference`; tokens are equal when the calls could meet. They must differ somewhere.

    `lines` gives finer tokens of the same calls (call and file:line). They break ties where like calls stand in a
    row: the fourth of six equal all-reduces is missing, not the last. Of explanations that fit equally far, one
    replaced call wins over missing or extra ones, and fewer over more.
    """
    index = first_difference(odd, reference)
    if index is None:
        raise ValueError("the sequences are equal")
    found = _explain(odd, reference, index)
    odd_lines, reference_lines = lines
    place = first_difference(odd_lines, reference_lines)
    if found.kind is not DepartureKind.DIFFERENT and place is not None and place < index:
        shift = found.count
        i, j = (place, place + shift) if found.kind is DepartureKind.MISSING else (place + shift, place)
        if _agreement(odd_lines, i, reference_lines, j)[0]:
            return Departure(found.kind, place, shift)
    return found


def _explain(odd: Sequence[int], reference: Sequence[int], index: int) -> Departure:
    if index == len(odd):
        return Departure(DepartureKind.MISSING, index, len(reference) - index)
    if index == len(reference):
        return Departure(DepartureKind.EXTRA, index, len(odd) - index)
    best_score, best = _agreement(odd, index + 1, reference, index + 1), Departure(DepartureKind.DIFFERENT, index, 1)
    for shift in range(1, MAX_SHIFT + 1):
        for kind, i, j in (
            (DepartureKind.MISSING, index, index + shift),
            (DepartureKind.EXTRA, index + shift, index),
        ):
            if i <= len(odd) and j <= len(reference):
                score = _agreement(odd, i, reference, j)
                if score > best_score:
                    best_score, best = score, Departure(kind, index, shift)
    if not best_score[0] and len(odd) == len(reference):
        return Departure(DepartureKind.DIFFERENT, index, 1)
    return best
