"""The hash: splitmix64 over (key, counter), cut into 16-bit lanes."""

import hashlib
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

MASK64 = (1 << 64) - 1
# Constants of splitmix64: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", figure 16.
GOLDEN = 0x9E3779B97F4A7C15
MIX1 = 0xBF58476D1CE4E5B9
MIX2 = 0x94D049BB133111EB
LANES = 4
"""Draws of 16 bits in a word of the hash."""
BLOCK_WORDS = 1 << 14
"""Words mixed at once: two arrays of them fit into a core's second cache (256 KiB)."""

Words = TypeVar("Words")


def mix64(value: int) -> int:
    """The splitmix64 finaliser of `value`, in [0, 2**64)."""
    value = (value + GOLDEN) & MASK64
    value = ((value ^ (value >> 30)) * MIX1) & MASK64
    value = ((value ^ (value >> 27)) * MIX2) & MASK64
    return value ^ (value >> 31)


def mix64_array(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`mix64` of each entry."""
    return _mix_in_place(values.copy(), np.empty_like(values))


def _mix_in_place(z: NDArray[np.uint64], scratch: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`mix64` of each entry of `z`, written over it."""
    np.add(z, np.uint64(GOLDEN), out=z)
    for shift, factor in ((30, MIX1), (27, MIX2)):
        np.right_shift(z, np.uint64(shift), out=scratch)
        np.bitwise_xor(z, scratch, out=z)
        np.multiply(z, np.uint64(factor), out=z)
    np.right_shift(z, np.uint64(31), out=scratch)
    return np.bitwise_xor(z, scratch, out=z)


def signed(word: int) -> int:
    """The int64 with the bits of `word`: torch has no arithmetic on uint64."""
    return word - (1 << 64) if word >> 63 else word


def mix64_any(values: Words) -> Words:
    """`mix64` of each entry of an int64 array or tensor of any library and device, by its own operators."""
    z: Any = values + signed(GOLDEN)  # type: ignore[operator]
    # The shifts of a signed number copy its sign: the mask takes the copies away.
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * signed(MIX1)
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * signed(MIX2)
    found: Words = z ^ ((z >> 31) & ((1 << 33) - 1))
    return found


def key_of(*parts: int | str) -> int:
    """One 64-bit key out of several integers and words; their order counts."""
    key = 0
    for part in parts:
        key = mix64(key ^ (_number(part) & MASK64))
    return key


def _number(part: int | str) -> int:
    if isinstance(part, str):
        return int.from_bytes(hashlib.sha256(part.encode()).digest()[:8], "little")
    return part


def lanes(keys: NDArray[np.uint64], num: int, *, first: int = 0) -> NDArray[np.uint16]:
    """Draws `first` to `first + num` of each key's row, uniform in [0, 65536): [len(keys), num].

    Draw e is the 16 bits from 16 x (e % 4) of mix64(key + GOLDEN x (e // 4)): any part of a row can be drawn alone.
    About 4 ns a draw and processor core (measured, numpy 2.4).
    """
    begin, end = first // LANES, -(-(first + num) // LANES)
    words = np.empty((len(keys), end - begin), dtype="<u8")
    with np.errstate(over="ignore"):
        for rows, columns in _blocks(len(keys), end - begin):
            counters = np.arange(begin + columns.start, begin + columns.stop, dtype=np.uint64) * np.uint64(GOLDEN)
            z = keys[rows, None] + counters
            words[rows, columns] = _mix_in_place(z, np.empty_like(z))
    skip = first - begin * LANES
    return words.view("<u2")[:, skip : skip + num]


def _blocks(num_rows: int, num_columns: int) -> Iterator[tuple[slice, slice]]:
    """Rectangles of at most BLOCK_WORDS entries that cover rows x columns."""
    width = min(max(num_columns, 1), BLOCK_WORDS)
    height = max(1, BLOCK_WORDS // width)
    for top in range(0, num_rows, height):
        for left in range(0, num_columns, width):
            yield slice(top, min(top + height, num_rows)), slice(left, min(left + width, num_columns))
