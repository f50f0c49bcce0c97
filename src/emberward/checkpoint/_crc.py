"""CRC-32 of blocks, and of a whole file out of its blocks' without reading the bytes again."""

import zlib
from functools import lru_cache

BLOCK_BYTES = 1 << 20
"""Bytes under one checksum: what a reader that needs one row of a large piece reads and proves."""

_POLYNOMIAL = 0xEDB88320


def _multiply(a: int, b: int) -> int:
    """a * b modulo the CRC-32 polynomial, bits reflected (zlib 1.3, crc32.c ``multmodp``)."""
    product = 0
    bit = 1 << 31
    while bit:
        if a & bit:
            product ^= b
        b = (b >> 1) ^ _POLYNOMIAL if b & 1 else b >> 1
        bit >>= 1
    return product


@lru_cache(maxsize=4096)
def _zeros(num_bytes: int) -> int:
    """The operator that appends `num_bytes` zero bytes: x^(8 n) modulo the polynomial (zlib ``x2nmodp``)."""
    power, square, n = 1 << 31, 1 << 30, num_bytes * 8
    while n:
        if n & 1:
            power = _multiply(square, power)
        square = _multiply(square, square)
        n >>= 1
    return power


def combine_crc32(first: int, second: int, second_bytes: int) -> int:
    """CRC-32 of A + B, given that of A, that of B and the length of B in bytes (zlib ``crc32_combine``)."""
    return _multiply(_zeros(second_bytes), first) ^ second


def crc32(data: memoryview | bytes, before: int = 0) -> int:
    """CRC-32 as zlib, gzip and PNG have it (ISO 3309); of `data` after bytes whose own is `before`."""
    return zlib.crc32(data, before)


def num_blocks(num_bytes: int) -> int:
    """Number of blocks of a piece of `num_bytes`; the last one may be short."""
    return -(-num_bytes // BLOCK_BYTES)
