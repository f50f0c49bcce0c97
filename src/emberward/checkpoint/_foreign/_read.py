"""Reads boxes of stored tensors, whatever file they lie in, and never more than a few megabytes beside the result."""

import os
from collections import OrderedDict
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from emberward.checkpoint._boxes import box_shape, intersect, relative_slices, volume
from emberward.checkpoint._foreign._bits import is_rounded
from emberward.checkpoint._foreign._problems import unreadable
from emberward.checkpoint._foreign._stored import Region, Stored, Twin, cut, row_major
from emberward.checkpoint._part import UintArray
from emberward.checkpoint._plain_file import open_plain
from emberward.checkpoint._reader import read_range
from emberward.layout import Box

CHUNK_BYTES = 2 << 20
"""Bytes that are read, changed and written at a time: what a core's cache keeps from the read to the write."""
_MAX_OPEN = 64


class Reader:
    """Open files of one thread. Close it, or use it as a context."""

    def __init__(self) -> None:
        self._open: OrderedDict[Path, FileIO] = OrderedDict()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def read(self, stored: Stored, box: Box, into: UintArray) -> None:
        """Fills `into`, shaped as `box`, with the bits of that part. Raises K101 or K110 when bytes are missing."""
        if stored.num_placed < stored.num_elements:
            into[...] = 0
        for region in stored.regions:
            common = intersect(region.box, box)
            if common is not None:
                part = Stored(name=stored.name, dtype=stored.dtype, shape=stored.shape, regions=(region,))
                where: tuple[Any, ...] = (..., *relative_slices(common, box))
                wanted = cut(part, common).regions[0]
                self._read_block(wanted, stored, into[where])
                if wanted.twin is not None:
                    self._compare_twin(wanted, wanted.twin, stored, into[where])

    def array(self, stored: Stored) -> UintArray:
        """The bits of a whole tensor; for small ones."""
        into = np.empty(stored.shape, dtype=f"<u{stored.dtype.item_bytes}")
        self.read(stored, tuple((0, length) for length in stored.shape), into)
        return into

    def _compare_twin(self, region: Region, twin: Twin, stored: Stored, bits: UintArray) -> None:
        """Reports elements that are not, rounded, those of the twin: unless a checksum tells which file is damaged."""
        other = Region(box=region.box, where=twin.where, offset=twin.offset, strides=twin.strides, record=twin.record)
        named = Stored(name=stored.name, dtype=twin.dtype, shape=stored.shape, regions=(other,))
        beside = np.empty(bits.shape, dtype=f"<u{twin.dtype.item_bytes}")
        self._read_block(other, named, beside)
        if is_rounded(bits, stored.dtype, beside, twin.dtype):
            return
        assert isinstance(region.where, Path), "a tensor with a twin lies in a file"
        for path, record in ((region.where, region.record), (twin.where, twin.record)):
            if record is not None:
                record.read_rest(self._file(path, stored).fileno())
        twin.record.disagree(
            region.where,
            f"its weights of {stored.name} are not those that {twin.where.name} computes with",
            f"{stored.dtype} rounded to {twin.dtype}",
            "other values, and both files have their checksums",
        )

    def _read_block(self, region: Region, stored: Stored, target: UintArray) -> None:
        """Fills `target`, shaped as the region's box, in spans of bounded length."""
        item_bytes, shape = stored.dtype.item_bytes, target.shape
        reach = 1 + sum((length - 1) * stride for length, stride in zip(shape, region.strides, strict=True))
        if reach == target.size and target.flags.c_contiguous and region.strides == row_major(shape):
            self._read_span(region, stored, target.reshape(-1).view(np.uint8).data)
            return
        if reach * item_bytes > CHUNK_BYTES and target.size > 1:
            dim = next(d for d, length in enumerate(shape) if length > 1)
            half = shape[dim] // 2
            box = tuple((0, length) for length in shape)
            part = Stored(name=stored.name, dtype=stored.dtype, shape=shape, regions=(region,))
            for ends in ((0, half), (half, shape[dim])):
                inner = (*box[:dim], ends, *box[dim + 1 :])
                self._read_block(cut(part, inner).regions[0], stored, target[tuple(slice(*pair) for pair in inner)])
            return
        span = np.empty(reach * item_bytes, dtype=np.uint8)
        self._read_span(region, stored, span.data)
        steps = tuple(stride * item_bytes for stride in region.strides)
        target[...] = np.lib.stride_tricks.as_strided(span.view(f"<u{item_bytes}"), shape, steps)

    def _read_span(self, region: Region, stored: Stored, into: memoryview) -> None:
        """Fills `into` with the bytes from the region's offset on."""
        if isinstance(region.where, bytes):
            into[:] = memoryview(region.where)[region.offset : region.offset + len(into)]
            return
        file = self._file(region.where, stored)
        if region.proof is not None:
            proof = region.proof
            begin = region.offset - proof.piece.offset
            read_range(proof.checkpoint, file, proof.piece, proof.piece_bytes, begin, into)
            return
        done = 0
        while done < len(into):
            taken = os.preadv(file.fileno(), [into[done:]], region.offset + done)
            if taken == 0:
                raise unreadable(
                    "a file is cut",
                    where=f"{region.where} tensor {stored.name}",
                    expected=f"{len(into)} bytes from byte {region.offset} on",
                    found=f"{done} bytes",
                )
            done += taken
        if region.record is not None:
            region.record.add(region.offset, into)

    def _file(self, path: Path, stored: Stored) -> FileIO:
        file = self._open.pop(path, None)
        if file is None:
            if len(self._open) >= _MAX_OPEN:
                self._open.popitem(last=False)[1].close()
            try:
                file = open_plain(path)
            except OSError as error:
                raise unreadable(
                    "a file cannot be opened",
                    where=f"{path} tensor {stored.name}",
                    found=error.strerror or str(error),
                ) from error
        self._open[path] = file
        return file


def tiles(box: Box, item_bytes: int, limit_bytes: int = CHUNK_BYTES) -> Iterator[Box]:
    """Boxes of at most `limit_bytes` (or one element) that are `box` in row-major order, each contiguous in it."""
    if volume(box) == 0:
        return
    if volume(box) * item_bytes <= limit_bytes:
        yield box
        return
    dim = next(d for d, (start, stop) in enumerate(box) if stop - start > 1)
    start, stop = box[dim]
    row_bytes = volume((*box[:dim], (start, start + 1), *box[dim + 1 :])) * item_bytes
    rows = max(1, limit_bytes // row_bytes)
    for low in range(start, stop, rows):
        yield from tiles((*box[:dim], (low, min(low + rows, stop)), *box[dim + 1 :]), item_bytes, limit_bytes)


def read_tiles(reader: Reader, stored: Stored, box: Box) -> Iterator[tuple[Box, UintArray]]:
    """The part `box`, tile by tile, in row-major order. Each array views one buffer: use it before the next."""
    item_bytes = stored.dtype.item_bytes
    buffer = np.empty(min(CHUNK_BYTES, volume(box) * item_bytes) // item_bytes, dtype=f"<u{item_bytes}")
    for tile in tiles(box, item_bytes):
        bits = buffer[: volume(tile)].reshape(box_shape(tile))
        reader.read(stored, tile, bits)
        yield tile, bits
