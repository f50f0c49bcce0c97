"""Normal values by counter, for first weights."""

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from emberward.draws._hash import GOLDEN, LANES, lanes

_LEVELS = 1 << 16
BLOCK_ELEMENTS = 1 << 18
"""Elements drawn at once: what a rank needs beside the parameters that it fills.

Words and draws of a block stay in a core's second cache: 2.6 ns an element, where 1 << 20 took 6.9 (numpy 2.4)."""


@functools.cache
def _quantiles() -> NDArray[np.float32]:
    """The normal value of each 16-bit draw: the quantile in the middle of its share of the distribution.

    A table instead of logarithms and cosines, whose last bit differs between processors, libraries and even places in
    one array. Ends at 4.32 standard deviations; standard deviation 0.99997.
    """
    inverse = NormalDist().inv_cdf
    upper = np.array([inverse((level + 0.5) / _LEVELS) for level in range(_LEVELS // 2, _LEVELS)], np.float32)
    return np.concatenate([-upper[::-1], upper])


def normal_box(
    key: int,
    shape: Sequence[int],
    box: Sequence[tuple[int, int]],
    *,
    std: float = 1.0,
    out: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """The part `box` (ranges [start, stop) by dim) of a tensor of `shape` of normal values times `std`, float32.

    Each element is a pure function of `key` and its place in the whole tensor, and only those of the part are drawn:
    about 3 ns each and processor core, where its memory is at hand. Written into `out`, contiguous and of the part's
    shape, where that is given.
    """
    sizes = [stop - start for start, stop in box]
    out = np.empty(sizes, np.float32) if out is None else out
    starts = _run_starts(shape, box) if sizes else np.zeros(1, np.int64)
    length = sizes[-1] if sizes else 1
    runs = out.reshape(len(starts), length)
    assert np.shares_memory(runs, out) or not out.size, "`out` is contiguous"
    rows = max(1, BLOCK_ELEMENTS // max(1, length))
    for top in range(0, len(starts), rows):
        np.multiply(_rows(key, starts[top : top + rows], length), np.float32(std), out=runs[top : top + rows])
    return out


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
            if len(mine) == len(starts):
                return np.take(_quantiles(), drawn, mode="clip", out=out)
            out[mine] = np.take(_quantiles(), drawn, mode="clip")
    return out


def _word_keys(key: int, words: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The keys whose rows begin at these words of `key`'s own row."""
    with np.errstate(over="ignore"):
        found: NDArray[np.uint64] = np.uint64(key) + words.astype(np.uint64) * np.uint64(GOLDEN)
    return found
