"""Reads boxes of logical tensors out of a save, whatever boxes it was written in, and proves each byte it hands out."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from emberward.checkpoint._boxes import (
    box_shape,
    box_text,
    flat_boxes,
    flat_span,
    intersect,
    relative_box,
    relative_slices,
    shifted,
    volume,
)
from emberward.checkpoint._crc import BLOCK_BYTES, crc32
from emberward.checkpoint._format import (
    DType,
    FileEntry,
    FormatProblem,
    Manifest,
    NewerFormat,
    Piece,
    manifest_from_bytes,
)
from emberward.checkpoint._names import MANIFEST, step_of_folder
from emberward.checkpoint._part import Part, UintArray
from emberward.checkpoint._plain_file import open_plain, read_plain
from emberward.checkpoint._problems import damaged, near_misses
from emberward.findings import Cause, EmberwardError
from emberward.layout import Box

_MAX_LISTED = 5


def read_manifest(checkpoint: Path) -> Manifest:
    """What the save holds.

    Raises K101 when the manifest is missing, damaged or another save's, K102 when its format is newer.
    """
    try:
        manifest = manifest_from_bytes(read_plain(checkpoint / MANIFEST))
        if step_of_folder(checkpoint) not in (None, manifest.step):
            raise FormatProblem(f"the manifest of step {manifest.step}")
        return manifest
    except NewerFormat as error:
        raise EmberwardError(
            "the checkpoint was written by a newer Emberward",
            code="K102",
            where=str(checkpoint / MANIFEST),
            expected="format version 1",
            found=str(error),
            next="pip install --upgrade emberward",
        ) from error
    except (OSError, FormatProblem) as error:
        found = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise damaged(
            checkpoint, "the manifest cannot be believed", where=MANIFEST, expected="a whole manifest", found=found
        ) from error


@dataclass(frozen=True, slots=True, eq=False)
class _CopyJob:
    """Elements of one piece that go into one part."""

    piece: Piece
    part: Part
    common: Box


def read_parts(checkpoint: Path, manifest: Manifest, wanted: Sequence[Part]) -> None:
    """Fills the bits of each part. Reads and proves only the blocks in which wanted elements lie; no communication.

    The parts must fit: see `require_fit`. Raises K101 when a byte is not as it was saved; then the parts are filled in
    part and must not be used. Memory: one block of 1 MiB beside the parts.
    """
    copy_jobs: dict[str, list[_CopyJob]] = defaultdict(list)
    for part in wanted:
        missing = volume(part.box)
        for piece in manifest.tensors[part.name].pieces:
            common = intersect(piece.box, part.box)
            if common is not None and missing > 0:
                copy_jobs[piece.file].append(_CopyJob(piece, part, common))
                missing -= volume(common)
        if missing != 0:
            raise damaged(
                checkpoint,
                "the manifest does not place every element",
                where=f"{MANIFEST} tensor {part.name} {box_text(part.box)}",
                expected=f"{volume(part.box)} elements",
                found=f"{volume(part.box) - missing} elements",
            )
    entries = {entry.name: entry for entry in manifest.files}
    for name, of_file in sorted(copy_jobs.items()):
        with open_data_file(checkpoint, name, entries.get(name)) as file:
            for job in sorted(of_file, key=lambda job: job.piece.offset):
                _run_copy_job(checkpoint, file, job)


def require_fit(checkpoint: Path, manifest: Manifest, wanted: Sequence[tuple[str, DType, tuple[int, ...]]]) -> None:
    """Raises K102 when a wanted (name, dtype, global shape) is not what the save holds; names up to 6 tensors."""
    problems: list[tuple[str, str, str, Cause, str | None]] = []
    for name, dtype, shape in wanted:
        entry = manifest.tensors.get(name)
        if entry is None:
            hint = near_misses(name, manifest.tensors)
            problems.append((name, "in the checkpoint", "no such tensor", Cause.UNKNOWN, hint))
        elif entry.shape != shape:
            problems.append((name, f"shape {shape}", f"shape {entry.shape}", Cause.SHAPE, None))
        elif entry.dtype != dtype:
            problems.append((name, f"dtype {dtype}", f"dtype {entry.dtype}", Cause.DTYPE, None))
    if not problems:
        return
    name, expected, found, cause, hint = problems[0]
    others = sorted({problem[0] for problem in problems[1:]} - {name})
    listed = ", ".join(others[:_MAX_LISTED]) + (
        f" and {len(others) - _MAX_LISTED} more" if others[_MAX_LISTED:] else ""
    )
    raise EmberwardError(
        f"tensor {name} does not fit the checkpoint" + (f"; nor do {listed}" if others else ""),
        code="K102",
        where=str(checkpoint),
        expected=f"{name} {expected}",
        found=found,
        next=(f"{hint}      " if hint else "") + f"emberward checkpoint show {checkpoint}",
        cause=cause,
    )


def open_data_file(checkpoint: Path, name: str, entry: FileEntry | None) -> FileIO:
    """The file, opened unbuffered. Raises K101 when it is missing, is not in the manifest or has another size."""
    path = checkpoint / name
    expected = "an entry in the manifest" if entry is None else f"{entry.size_bytes} bytes"
    found = "none"
    if entry is not None:
        try:
            size_bytes = path.stat().st_size
            if size_bytes == entry.size_bytes:
                return open_plain(path)
            found = f"{size_bytes} bytes"
        except OSError as error:
            found = error.strerror or str(error)
    raise damaged(checkpoint, "a data file is missing or cut", where=name, expected=expected, found=found)


def read_exactly(file: FileIO, offset: int, into: memoryview) -> int:
    """The number of bytes read from `offset` on: all of `into`, or fewer at the end of the file. Blocks."""
    file.seek(offset)
    done = 0
    while done < len(into):
        taken = file.readinto(into[done:])
        if not taken:
            break
        done += taken
    return done


def read_block(checkpoint: Path, file: FileIO, piece: Piece, block: int, into: memoryview) -> None:
    """Fills `into` with a block of the piece, proved by its checksum. Raises K101 naming file, tensor and bytes."""
    at = piece.offset + block * BLOCK_BYTES
    where = f"{piece.file} tensor {piece.key} bytes {at}..{at + len(into) - 1}"
    try:
        done = read_exactly(file, at, into)
    except OSError as error:
        raise damaged(
            checkpoint,
            "a data file cannot be read",
            where=where,
            expected=f"{len(into)} bytes",
            found=error.strerror or str(error),
            cause=Cause.CHECKPOINT_IO,
        ) from error
    crc = crc32(into)
    if done < len(into) or crc != piece.crc32[block]:
        raise damaged(
            checkpoint,
            "data is not what was saved",
            where=where,
            expected=f"CRC-32 {piece.crc32[block]:08x}",
            found=f"CRC-32 {crc:08x}" if done == len(into) else f"{done} bytes of {len(into)}",
        )


def read_blocks(
    checkpoint: Path, file: FileIO, piece: Piece, item_bytes: int, within: Box
) -> Iterator[tuple[Box, UintArray]]:
    """Boxes of the tensor with their bits, block by block, for each block that holds an element of `within`.

    Each array is a view of one buffer: use it before the next is asked for.
    """
    shape = box_shape(piece.box)
    num_bytes = volume(piece.box) * item_bytes
    first, last = flat_span(relative_box(within, piece.box), shape)
    buffer = np.empty(min(BLOCK_BYTES, num_bytes), dtype=np.uint8)
    for block in range(first * item_bytes // BLOCK_BYTES, -(-last * item_bytes // BLOCK_BYTES)):
        begin = block * BLOCK_BYTES
        end = min(begin + BLOCK_BYTES, num_bytes)
        boxes = [shifted(box, piece.box) for box in flat_boxes(shape, begin // item_bytes, end // item_bytes)]
        if all(intersect(box, within) is None for box in boxes):
            continue
        read_block(checkpoint, file, piece, block, buffer.data[: end - begin])
        bits = buffer[: end - begin].view(f"<u{item_bytes}")
        for box in boxes:
            yield box, bits[: volume(box)].reshape(box_shape(box))
            bits = bits[volume(box) :]


def _run_copy_job(checkpoint: Path, file: FileIO, job: _CopyJob) -> None:
    part, piece, item_bytes = job.part, job.piece, job.part.dtype.item_bytes
    where: tuple[Any, ...] = (..., *relative_slices(job.common, part.box))  # dots: a view even of one without dims
    target = part.bits[where]
    first, last = flat_span(relative_box(job.common, piece.box), box_shape(piece.box))
    if last - first == target.size and target.flags.c_contiguous:
        raw = target.reshape(-1).view(np.uint8).data
        read_range(checkpoint, file, piece, volume(piece.box) * item_bytes, first * item_bytes, raw)
        return
    for box, bits in read_blocks(checkpoint, file, piece, item_bytes, job.common):
        common = intersect(box, job.common)
        if common is not None:
            part.bits[relative_slices(common, part.box)] = bits[relative_slices(common, box)]


def read_range(checkpoint: Path, file: FileIO, piece: Piece, piece_bytes: int, begin: int, into: memoryview) -> None:
    """Fills `into` with the piece's bytes from `begin` on: whole blocks in place, the two ends through a buffer."""
    end = begin + len(into)
    for block in range(begin // BLOCK_BYTES, -(-end // BLOCK_BYTES)):
        low, high = block * BLOCK_BYTES, min((block + 1) * BLOCK_BYTES, piece_bytes)
        if begin <= low and high <= end:
            read_block(checkpoint, file, piece, block, into[low - begin : high - begin])
            continue
        buffer = memoryview(bytearray(high - low))
        read_block(checkpoint, file, piece, block, buffer)
        from_byte, to_byte = max(begin, low), min(end, high)
        into[from_byte - begin : to_byte - begin] = buffer[from_byte - low : to_byte - low]
