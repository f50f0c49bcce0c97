"""Digests of logical tensors that do not depend on who holds which part.

[Note: tensor digest]
``digest(T) = sum over all words of T of  word * W_0(i_0) * W_1(i_1) * ... * W_n(i_n)  mod 2^64``

- A *word* is an element's bits as an unsigned little-endian integer. An element of 8 bytes is two words of 4, and the
  word's number (0: low, 1: high) is one more index after the tensor's own dims.
- ``i_0 ... i_n`` are the element's indices in the whole tensor; a tensor without dims counts as one of shape (1,).
- ``W_d(k) = odd(2^33 d + 2^32 + (k >> 16)) * odd(2^33 d + (k & 65535))`` with ``odd(x) = splitmix64(x) | 1``: the
  output of the generator for state x (Steele, Lea and Flood, 2014, "Fast splittable pseudorandom number generators",
  with Vigna's constants), made odd.

The sum is exact and commutes, so parts are digested wherever they lie and added; a weight is a product over dims, so a
box needs one short weight vector for each dim. This is the multilinear family of Lemire and Kaser (2014, "Strongly
universal string hashing is fast"), words of at most 32 bits under 64-bit weights, with fixed weights in place of
random ones. A change of one word is always seen: an odd weight times a difference below 2^32 is never 0 modulo 2^64.
A change of several is missed with a chance of about 2^-31 at worst (only top bits differ), 2^-60 for arbitrary bits.
The digest proves equality against accidents; it is no defence against a person who wants a collision.
Torch's int64 wraps as numpy's uint64 does, so the same sum can be taken on a device.
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from emberward.layout import Box

_MASK = (1 << 64) - 1
_LOW_BITS = 16
_CHUNK_WORDS = 1 << 16
"""Words widened to 64 bits at a time: 512 KiB of scratch, within a core's L2 cache."""

UintArray = NDArray[np.unsignedinteger]


def _odd_splitmix64(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = states + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)


@lru_cache(maxsize=16)
def _low_weights(dim: int) -> NDArray[np.uint64]:
    table = _odd_splitmix64(np.arange(1 << _LOW_BITS, dtype=np.uint64) + np.uint64(dim << 33))
    table.flags.writeable = False
    return table


def weights(dim: int, start: int, stop: int) -> NDArray[np.uint64]:
    """W_dim(k) for k in [start, stop). See [Note: tensor digest]."""
    low = _low_weights(dim)
    parts = []
    for high in range(start >> _LOW_BITS, ((stop - 1) >> _LOW_BITS) + 1):
        base = high << _LOW_BITS
        factor = _odd_splitmix64(np.array([(dim << 33) + (1 << 32) + high], dtype=np.uint64))
        parts.append(low[max(start, base) - base : min(stop, base + len(low)) - base] * factor)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def partial_digest(bits: UintArray, box: Box) -> int:
    """The share of `box` in its tensor's digest, in [0, 2^64): add the shares of disjoint boxes modulo 2^64.

    `bits` holds the box's elements as unsigned integers of 1, 2, 4 or 8 bytes, C-contiguous, shaped as the box.
    See [Note: tensor digest].
    """
    if bits.size == 0:
        return 0
    if bits.dtype.itemsize == 8:
        halves = bits.reshape(-1).view("<u4").reshape(-1, 2)
        low, high = (int(weight) for weight in weights(len(box) if box else 1, 0, 2))
        return (_words_digest(halves[:, 0], box) * low + _words_digest(halves[:, 1], box) * high) & _MASK
    return _words_digest(bits.reshape(-1), box)


def _words_digest(words: UintArray, box: Box) -> int:
    """The weighted sum of `words`, given flat in row-major order of `box`."""
    box = box or ((0, 1),)
    split = len(box) - 1
    num_inner = box[-1][1] - box[-1][0]
    while split > 0 and num_inner * (box[split - 1][1] - box[split - 1][0]) <= _CHUNK_WORDS:
        split -= 1
        num_inner *= box[split][1] - box[split][0]
    outer = _outer_weights(0, box[:split])
    rows = words.reshape(len(outer), num_inner)
    if num_inner <= _CHUNK_WORDS:
        return _weighted_sum(rows, outer, _outer_weights(split, box[split:])) & _MASK
    total, (start, stop) = 0, box[-1]
    for left in range(start, stop, _CHUNK_WORDS):
        right = min(left + _CHUNK_WORDS, stop)
        total += _weighted_sum(rows[:, left - start : right - start], outer, weights(split, left, right))
    return total & _MASK


def _outer_weights(first_dim: int, ranges: Box) -> NDArray[np.uint64]:
    """Products of the weights of dims `first_dim`, `first_dim` + 1, ... over `ranges`, row-major; [1] for no dim."""
    product = np.ones(1, dtype=np.uint64)
    for dim, (start, stop) in enumerate(ranges, start=first_dim):
        product = np.multiply.outer(product, weights(dim, start, stop)).reshape(-1)
    return product


def _weighted_sum(rows: UintArray, outer: NDArray[np.uint64], inner: NDArray[np.uint64]) -> int:
    """outer @ rows @ inner before the reduction modulo 2^64; `inner` has at most _CHUNK_WORDS entries."""
    total = 0
    num_rows = _CHUNK_WORDS // len(inner)
    scratch = np.empty(num_rows * len(inner), dtype=np.uint64)
    for top in range(0, len(outer), num_rows):
        words, short, long = rows[top : top + num_rows], outer[top : top + num_rows], inner
        if len(short) > len(long):  # keep the summed axis the long one: einsum is slow over short rows
            words, short, long = words.T, long, short
        wide = scratch[: words.size].reshape(words.shape)
        np.copyto(wide, words)
        total += int(np.dot(np.einsum("ij,j->i", wide, long), short))
    return total


def add_digests(shares: Iterable[int]) -> int:
    """The sum of digest shares modulo 2^64."""
    return sum(shares) & _MASK
