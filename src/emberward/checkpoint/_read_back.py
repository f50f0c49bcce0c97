"""Reads a file that was just written and compares it with what was meant to be in it."""

import os
from io import FileIO
from pathlib import Path

from emberward.checkpoint._boxes import volume
from emberward.checkpoint._crc import BLOCK_BYTES, crc32
from emberward.checkpoint._format import Piece
from emberward.checkpoint._reader import read_exactly
from emberward.checkpoint._writer import RankIndex
from emberward.findings import Cause, EmberwardError
from emberward.recipe import ReadBack

SAMPLE_EVERY = 16
"""Of so many blocks a sampled reading takes one; which one moves on with the step."""


def require_as_written(folder: Path, index: RankIndex, *, how: ReadBack, step: int) -> None:
    """Raises K105 when a byte of the rank's file is not what it gave to the file system; blocks.

    The system is asked to forget its copy first, so that the bytes come from the disk where it does so
    (posix_fadvise(2), POSIX_FADV_DONTNEED: clean pages, hence after fsync; a tmpfs keeps them). Memory: 1 MiB.
    """
    if how is ReadBack.NONE or index.file is None:
        return
    with FileIO(folder / index.file.name) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        header = bytearray(index.file.header_bytes)
        done = read_exactly(file, 0, memoryview(header))
        _require(folder, index, "header", crc32(bytes(header[:done])), index.file.header_crc32)
        buffer = memoryview(bytearray(BLOCK_BYTES))
        number = 0
        for entry in index.tensors.values():
            for piece in entry.pieces:
                num_bytes = volume(piece.box) * entry.dtype.item_bytes
                for block, expected in enumerate(piece.crc32):
                    number += 1
                    if how is ReadBack.SAMPLED and (number + step) % SAMPLE_EVERY:
                        continue
                    length = min(BLOCK_BYTES, num_bytes - block * BLOCK_BYTES)
                    done = read_exactly(file, piece.offset + block * BLOCK_BYTES, buffer[:length])
                    _require(folder, index, _where(piece, block), crc32(buffer[:done]), expected)


def _where(piece: Piece, block: int) -> str:
    return f"tensor {piece.key} block {block} of {len(piece.crc32)}"


def _require(folder: Path, index: RankIndex, where: str, found: int, expected: int) -> None:
    if found == expected:
        return
    assert index.file is not None
    raise EmberwardError(
        f"what rank {index.rank} wrote reads back otherwise",
        code="K105",
        where=f"{folder / index.file.name} {where}",
        expected=f"CRC-32 {expected:08x}",
        found=f"CRC-32 {found:08x}",
        next=f"test the disk and the memory of the host of rank {index.rank}; the saves before this one are untouched",
        cause=Cause.CORRUPT_FILE,
        ranks=(index.rank,),
    )
