"""Normal values by counter, for first weights."""

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from emberward.draws._hash import GOLDEN, LANES, lanes

_LEVELS = 1 << 16
BLOCK_ELEMENTS = 1 << 20
"""Elements drawn at once: what a rank needs beside the parameters that it fills."""


@functools.cache
def _quantiles() -> NDArray[np.float32]:
    """The normal value of each 16-bit draw: the quantile in the middle of its share of the distribution.

    A table instead of logarithms and cosines, whose last bit differs between processors, libraries and even places in
    one array. Ends at 4.32 standard deviations; standard deviation 0.99997.
    """
    inverse = NormalDist().inv_cdf
    upper = np.array([inverse((level + 0.5) / _LEVELS) for level in range(_LEVELS // 2, _LEVELS)], np.float32)
    return np.concatenate([-upper[::-1], upper])


def normal_box(key: int, shape: Sequence[int], box: Sequence[tuple[int, int]]) -> NDArray[np.float32]:
    """The part `box` (ranges [start, stop) by dim) of a tensor of `shape` of normal values, float32.

    Each element is a pure function of `key` and its place in the whole tensor, and only those of the part are drawn:
    about 10 ns each and processor core.
    """
    sizes = [stop - start for start, stop in box]
    if not sizes:
        return _rows(key, np.zeros(1, np.int64), 1).reshape(())
    starts = _run_starts(shape, box)
    out = np.empty((len(starts), sizes[-1]), np.float32)
    rows = max(1, BLOCK_ELEMENTS // max(1, sizes[-1]))
    for top in range(0, len(starts), rows):
        out[top : top + rows] = _rows(key, starts[top : top + rows], sizes[-1])
    return out.reshape(sizes)


def _run_starts(shape: Sequence[int], box: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """The place in the whole tensor, counted row by row, of the first element of each run along the last dim."""
    starts = np.array([box[-1][0]], np.int64)
    for dim in reversed(range(len(shape) - 1)):
        stride = math.prod(shape[dim + 1 :])
        starts = (np.arange(*box[dim], dtype=np.int64)[:, None] * stride + starts[None, :]).reshape(-1)
    return starts


def _rows(key: int, starts: NDArray[np.int64], length: int) -> NDArray[np.float32]:
    """The runs of `length` elements from each of `starts` on: [len(starts), length]."""
    out = np.empty((len(starts), length), np.float32)
    for phase in range(LANES):
        mine = np.flatnonzero(starts % LANES == phase)
        if len(mine):
            drawn = lanes(_word_keys(key, starts[mine] // LANES), length, first=phase)
            out[mine] = np.take(_quantiles(), drawn, mode="clip")
    return out


def _word_keys(key: int, words: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The keys whose rows begin at these words of `key`'s own row."""
    with np.errstate(over="ignore"):
        found: NDArray[np.uint64] = np.uint64(key) + words.astype(np.uint64) * np.uint64(GOLDEN)
    return found
