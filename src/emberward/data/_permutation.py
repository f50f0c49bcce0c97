"""A keyed shuffle of range(n) whose every entry can be worked out alone, in constant memory."""

import numpy as np
from numpy.typing import NDArray

from emberward.draws import GOLDEN, MASK64, mix64_array

NUM_ROUNDS = 8
# Smaller networks are not even: a chi-squared test over 20,000 keys rejects orders of 4 or 5 entries made with 4 bits
# at 6 to 24 rounds, and accepts those made with 8 bits at all of these.
MIN_BITS = 8


def permute(positions: NDArray[np.int64], *, size: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where each position in [0, size) goes under the permutation of range(size) that its key names.

    `positions` and `keys` are 1-D of one length: entry j is permuted under keys[j].

    A Feistel network (Luby, Rackoff 1988) over the smallest power of two that holds `size`, walked on until it falls
    below `size` (Black, Rogaway 2002, "Ciphers with arbitrary finite domains", section 3). Each walk ends: it stays on
    a cycle through its start, which is below `size`. Less than two networks a position are run on average, more where
    `size` is below 2**(MIN_BITS - 1).
    """
    if size == 1:
        return np.zeros_like(positions)
    bits = max(MIN_BITS, (size - 1).bit_length())
    result = positions.astype(np.uint64)
    open_ = np.arange(len(result))
    for _ in range(1 << bits):
        result[open_] = _feistel(result[open_], keys[open_], bits)
        open_ = open_[result[open_] >= size]
        if len(open_) == 0:
            break
    return result.astype(np.int64)


def _feistel(values: NDArray[np.uint64], keys: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """A bijection of [0, 2**bits) for each key. The halves may differ by one bit: each round changes one half only."""
    right_bits = np.uint64(bits // 2)
    left_mask = np.uint64((1 << (bits - bits // 2)) - 1)
    right_mask = np.uint64((1 << (bits // 2)) - 1)
    left, right = values >> right_bits, values & right_mask
    for round_ in range(NUM_ROUNDS):
        round_keys = keys + np.uint64(round_ * GOLDEN & MASK64)
        if round_ % 2 == 0:
            left = (left ^ mix64_array(right ^ round_keys)) & left_mask
        else:
            right = (right ^ mix64_array(left ^ round_keys)) & right_mask
    return (left << right_bits) | right
