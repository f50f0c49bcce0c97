"""Reads a file that was just written and compares it with what was meant to be in it."""

import errno
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from emberward.checkpoint._boxes import volume
from emberward.checkpoint._crc import BLOCK_BYTES, crc32
from emberward.checkpoint._pace import AT_ONCE, SPAN_BYTES, Pace
from emberward.checkpoint._storage import ALIGN_BYTES, O_DIRECT
from emberward.checkpoint._writer import RankIndex
from emberward.files import anew
from emberward.findings import Cause, EmberwardError
from emberward.recipe import ReadBack

SAMPLE_EVERY = 16
"""Of so many blocks a sampled reading takes one; which one moves on with the step."""
_CHECKS_AT_ONCE = 4
"""Blocks that are one piece of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """Bytes of the file and the checksum that they must have."""

    where: str
    offset: int
    length: int
    expected: int


def require_as_written(folder: Path, index: RankIndex, *, how: ReadBack, step: int, pace: Pace = AT_ONCE) -> None:
    """Raises K105 when a byte of the rank's file is not what it gave to the file system; blocks.

    The bytes come from the disk: they are read past the page cache (O_DIRECT), or where the file system cannot, the
    system is asked to forget its copy first (posix_fadvise(2), POSIX_FADV_DONTNEED: clean pages, hence after fsync;
    an old tmpfs keeps them). Memory: one window of at most 4 MiB.
    """
    if how is ReadBack.NONE or index.file is None:
        return
    with _Windows(folder / index.file.name, BLOCK_BYTES if how is ReadBack.SAMPLED else SPAN_BYTES) as windows:
        checks = list(_checks(index, how, step))
        for first in range(0, len(checks), _CHECKS_AT_ONCE):
            pace.do(partial(_require_all, folder, index, windows, checks[first : first + _CHECKS_AT_ONCE]))


def _checks(index: RankIndex, how: ReadBack, step: int) -> Iterator[_Check]:
    assert index.file is not None
    yield _Check(where="header", offset=0, length=index.file.header_bytes, expected=index.file.header_crc32)
    number = 0
    for entry in index.tensors.values():
        for piece in entry.pieces:
            num_bytes = volume(piece.box) * entry.dtype.item_bytes
            for block, expected in enumerate(piece.crc32):
                number += 1
                if how is ReadBack.SAMPLED and (number + step) % SAMPLE_EVERY:
                    continue
                begin = block * BLOCK_BYTES
                yield _Check(
                    where=f"tensor {piece.key} block {block} of {len(piece.crc32)}",
                    offset=piece.offset + begin,
                    length=min(BLOCK_BYTES, num_bytes - begin),
                    expected=expected,
                )


def _require_all(folder: Path, index: RankIndex, windows: "_Windows", checks: Sequence[_Check]) -> None:
    for check in checks:
        found = windows.crc32(check.offset, check.length)
        if found != check.expected:
            _raise_otherwise(folder, index, check, found)


class _Windows:
    """A file, a window of it at a time, past the page cache where that goes."""

    def __init__(self, path: Path, num_bytes: int) -> None:
        self._buffer = memoryview(mmap.mmap(-1, num_bytes))
        self._window = self._buffer[:0]
        self._begin = 0
        self._file = anew(lambda: os.open(path, os.O_RDONLY))
        if O_DIRECT is not None:
            self._read_past_the_cache(path)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def _read_past_the_cache(self, path: Path) -> None:
        """Where the file system can: some refuse to open a file so, others to read it."""
        assert O_DIRECT is not None
        try:
            file = anew(lambda: os.open(path, os.O_RDONLY | O_DIRECT))
        except OSError as error:
            if error.errno == errno.EINVAL:
                return
            raise
        kept, self._file = self._file, file
        try:
            self._load(0)
            os.close(kept)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            os.close(file)
            self._file = kept

    def __enter__(self) -> "_Windows":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def crc32(self, offset: int, length: int) -> int:
        """The checksum of these bytes, of fewer where the file ends before."""
        crc = 0
        while length > 0:
            if not self._begin <= offset < self._begin + len(self._window):
                self._load(offset - offset % ALIGN_BYTES)
            part = self._window[offset - self._begin :][:length]
            if len(part) == 0:
                break
            crc = crc32(part, crc)
            offset += len(part)
            length -= len(part)
        return crc

    def _load(self, begin: int) -> None:
        self._begin, self._window = begin, self._buffer[: os.preadv(self._file, [self._buffer], begin)]


def _raise_otherwise(folder: Path, index: RankIndex, check: _Check, found: int) -> NoReturn:
    assert index.file is not None
    raise EmberwardError(
        f"what rank {index.rank} wrote reads back otherwise",
        code="K105",
        where=f"{folder / index.file.name} {check.where}",
        expected=f"CRC-32 {check.expected:08x}",
        found=f"CRC-32 {found:08x}",
        next=f"test the disk and the memory of the host of rank {index.rank}; the saves before this one are untouched",
        cause=Cause.CORRUPT_FILE,
        ranks=(index.rank,),
    )
