"""Bits of tensors as numbers, and from one number type to another, without torch: numpy has no bfloat16."""

import numpy as np
from numpy.typing import NDArray

from emberward.checkpoint._format import DType
from emberward.checkpoint._part import UintArray

_NUMPY = {
    DType.F64: "<f8",
    DType.F32: "<f4",
    DType.F16: "<f2",
    DType.I64: "<i8",
    DType.I32: "<i4",
    DType.I16: "<i2",
    DType.I8: "i1",
    DType.U64: "<u8",
    DType.U32: "<u4",
    DType.U16: "<u2",
    DType.U8: "u1",
    DType.BOOL: "u1",
}
FLOATS = frozenset({DType.F64, DType.F32, DType.F16, DType.BF16})
"""Number types that are converted into each other."""


def to_floats(bits: UintArray, dtype: DType) -> NDArray[np.float64]:
    """The numbers in float64. Types that numpy does not know (8-bit floats, complex) are compared as integers."""
    if dtype is DType.BF16:
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return bits.view(_NUMPY[dtype]).astype(np.float64) if dtype in _NUMPY else bits.astype(np.float64)


def to_bits(numbers: NDArray[np.floating], dtype: DType) -> UintArray:
    """The bits of numbers in `dtype`, one of FLOATS; rounded to nearest, ties to even, as torch does."""
    if dtype is DType.BF16:
        return _round_to_bf16(numbers.astype(np.float32))
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(numbers.astype(_NUMPY[dtype])).view(f"<u{dtype.item_bytes}")


def convert(bits: UintArray, dtype: DType, into: DType) -> UintArray:
    """The bits in another type of FLOATS; the same array when the type stays."""
    if dtype is into:
        return bits
    if dtype is DType.BF16:
        wide = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    else:
        wide = bits.view(_NUMPY[dtype])
    return to_bits(wide, into)


def is_rounded(bits: UintArray, dtype: DType, rounded: UintArray, into: DType) -> bool:
    """Whether `rounded` are the numbers of `bits` in type `into`; a NaN is one whatever its bits."""
    if dtype is not into and not {dtype, into} <= FLOATS:
        return False
    made = convert(np.ascontiguousarray(bits), dtype, into)
    unequal = made != rounded
    if not unequal.any():
        return True
    return bool(
        into in FLOATS
        and np.isnan(to_floats(made[unequal], into)).all()
        and np.isnan(to_floats(rounded[unequal], into)).all()
    )


def _round_to_bf16(numbers: NDArray[np.float32]) -> UintArray:
    """Rounds to nearest even on the upper 16 bits (torch ``c10/util/BFloat16.h``); NaN stays one."""
    words = np.ascontiguousarray(numbers).view(np.uint32)
    rounded = (words + np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    rounded = np.where(np.isnan(numbers), np.uint32(0x7FC0), rounded)
    return rounded.astype(np.uint16)
