"""Sums on boxes: the half-open ranges that say which part of a tensor a piece is."""

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from emberward.layout import Box


def whole_box(shape: Sequence[int]) -> Box:
    """The box of a whole tensor of `shape`."""
    return tuple((0, length) for length in shape)


def box_shape(box: Box) -> tuple[int, ...]:
    """Lengths of the box along each dim."""
    return tuple(stop - start for start, stop in box)


def volume(box: Box) -> int:
    """Number of elements in the box; 1 for a tensor without dims."""
    return math.prod(stop - start for start, stop in box)


def is_inside(box: Box, shape: Sequence[int]) -> bool:
    """Whether the box is well formed and lies within a tensor of `shape`."""
    return len(box) == len(shape) and all(
        0 <= start <= stop <= length for (start, stop), length in zip(box, shape, strict=True)
    )


def intersect(a: Box, b: Box) -> Box | None:
    """The common part of two boxes of one tensor, None when they share no element."""
    both = tuple((max(x[0], y[0]), min(x[1], y[1])) for x, y in zip(a, b, strict=True))
    return both if all(start < stop for start, stop in both) else None


def relative_box(box: Box, origin: Box) -> Box:
    """`box` in coordinates that count from the low corner of `origin`."""
    return tuple((start - low, stop - low) for (start, stop), (low, _) in zip(box, origin, strict=True))


def relative_slices(box: Box, origin: Box) -> tuple[slice, ...]:
    """Where `box` lies within an array that holds `origin`."""
    return tuple(slice(start, stop) for start, stop in relative_box(box, origin))


def shifted(box: Box, origin: Box) -> Box:
    """`box`, given relative to `origin`, in the tensor's own coordinates."""
    return tuple((start + low, stop + low) for (start, stop), (low, _) in zip(box, origin, strict=True))


def flat_boxes(shape: Sequence[int], start: int, stop: int) -> Iterator[Box]:
    """Boxes that together hold exactly the row-major positions [start, stop) of an array of `shape`, in that order.

    At most 2 * dims - 1 boxes; none for an empty range.
    """
    if start >= stop:
        return
    if not shape:
        yield ()
        return
    row = math.prod(shape[1:])
    first, head = divmod(start, row)
    last, tail = divmod(stop, row)
    if first == last:
        yield from (((first, first + 1), *inner) for inner in flat_boxes(shape[1:], head, tail))
        return
    if head > 0:
        yield from (((first, first + 1), *inner) for inner in flat_boxes(shape[1:], head, row))
        first += 1
    if first < last:
        yield ((first, last), *whole_box(shape[1:]))
    if tail > 0:
        yield from (((last, last + 1), *inner) for inner in flat_boxes(shape[1:], 0, tail))


def flat_span(box: Box, shape: Sequence[int]) -> tuple[int, int]:
    """The row-major positions [first, last + 1) between which a non-empty `box` lies in an array of `shape`."""
    first = last = 0
    for (start, stop), length in zip(box, shape, strict=True):
        first = first * length + start
        last = last * length + stop - 1
    return first, last + 1


def find_overlap(boxes: Sequence[Box]) -> tuple[int, int] | None:
    """Positions in `boxes`, ascending, of two that share an element; None when all are disjoint.

    Sorted by their first dim, so that only neighbours are compared: n log n for boxes that split the first dim.
    """
    full = sorted((box, index) for index, box in enumerate(boxes) if volume(box) > 0)
    if full and not full[0][0]:
        return (0, 1) if len(full) > 1 else None  # without dims, every box is the one element
    starts = [box[0][0] for box, _ in full]
    for at, (box, index) in enumerate(full):
        end = bisect_left(starts, box[0][1], lo=at + 1)
        for other, other_index in itertools.islice(full, at + 1, end):
            if intersect(box, other) is not None:
                return min(index, other_index), max(index, other_index)
    return None


def box_text(box: Box) -> str:
    """The box as people index: ``[0:4, 8:16]``."""
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in box) + "]"
