"""One rank's share of a save: its data file, and the index that says what is in it."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from emberward.checkpoint._boxes import box_shape, volume
from emberward.checkpoint._crc import BLOCK_BYTES, combine_crc32, crc32
from emberward.checkpoint._digest import add_digests, partial_digest
from emberward.checkpoint._format import (
    FileEntry,
    Piece,
    TensorEntry,
    file_from_json,
    file_to_json,
    from_proved_json,
    tensor_from_json,
    tensor_to_json,
    to_proved_json,
)
from emberward.checkpoint._names import rank_file_name, rank_index_name
from emberward.checkpoint._pace import AT_ONCE, SPAN_BYTES, Pace
from emberward.checkpoint._part import Part
from emberward.checkpoint._safetensors import Item, header_bytes
from emberward.checkpoint._storage import Storage, WritableFile, write_all, write_new
from emberward.files import anew
from emberward.layout import Box

_INDEX_KIND = "emberward_rank_index"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankIndex:
    """What one rank wrote. `file` is None when it held no element; its tensors' digests are shares."""

    rank: int
    file: FileEntry | None
    tensors: Mapping[str, TensorEntry]


def write_rank(
    storage: Storage, folder: Path, parts: Sequence[Part], *, step: int, rank: int, pace: Pace = AT_ONCE
) -> RankIndex:
    """Writes the rank's file and index into `folder` and returns when both are on the disk, their names not yet.

    Each rank calls it with the parts it alone owns; it does not communicate. Raises OSError, ValueError.
    """
    index = _write_data(storage, folder, parts, step=step, rank=rank, pace=pace)
    body: dict[str, Any] = {
        "rank": rank,
        "files": [] if index.file is None else [file_to_json(index.file)],
        "tensors": {name: tensor_to_json(entry) for name, entry in index.tensors.items()},
    }
    write_new(storage, folder / rank_index_name(rank), to_proved_json(_INDEX_KIND, body))
    return index


def read_rank_index(folder: Path, rank: int) -> RankIndex:
    """The index that `rank` wrote. Raises OSError, FormatProblem."""
    body = from_proved_json(_INDEX_KIND, anew((folder / rank_index_name(rank)).read_bytes))
    return RankIndex(
        rank=body["rank"],
        file=file_from_json(body["files"][0]) if body["files"] else None,
        tensors={name: tensor_from_json(row) for name, row in body["tensors"].items()},
    )


def _write_data(
    storage: Storage, folder: Path, parts: Sequence[Part], *, step: int, rank: int, pace: Pace
) -> RankIndex:
    """Writes the data file, if there is any data: header, then the parts, largest number types first for alignment."""
    declared = _require_agreement(parts)
    full = sorted((part for part in parts if part.bits.size > 0), key=lambda part: (-part.dtype.item_bytes, part.key))
    name = rank_file_name(rank)
    pieces: dict[str, list[Piece]] = {tensor: [] for tensor in declared}
    shares: dict[str, list[int]] = {tensor: [] for tensor in declared}
    entry = None
    if full:
        header = _header(full, step=step, rank=rank)
        crc, offset = crc32(header), len(header)
        file = storage.create(folder / name)
        try:
            write_all(file, header)
            for part in full:
                crcs = _write_part(file, part, pace)
                for block, block_crc in enumerate(crcs):
                    crc = combine_crc32(crc, block_crc, min(BLOCK_BYTES, part.bits.nbytes - block * BLOCK_BYTES))
                pieces[part.name].append(Piece(file=name, key=part.key, box=part.box, offset=offset, crc32=crcs))
                offset += part.bits.nbytes
            with ThreadPoolExecutor(max_workers=1) as flusher:  # the disk works while the digests are taken
                flushed = flusher.submit(file.fsync)
                for part in full:
                    shares[part.name] += _digest_shares(part, pace)
                flushed.result()
        finally:
            file.close()
        entry = FileEntry(name=name, size_bytes=offset, crc32=crc, header_bytes=len(header), header_crc32=crc32(header))
    tensors = {
        tensor: TensorEntry(
            dtype=part.dtype,
            shape=part.global_shape,
            digest=add_digests(shares[tensor]),
            pieces=tuple(pieces[tensor]),
        )
        for tensor, part in declared.items()
    }
    return RankIndex(rank=rank, file=entry, tensors=tensors)


def _require_agreement(parts: Sequence[Part]) -> dict[str, Part]:
    """The first part of each tensor. Raises ValueError when two parts of one tensor contradict or repeat each other."""
    first: dict[str, Part] = {}
    seen: set[tuple[str, Box]] = set()
    for part in parts:
        known = first.setdefault(part.name, part)
        if (known.dtype, known.global_shape) != (part.dtype, part.global_shape):
            raise ValueError(f"{part.name} is given as {known.dtype} {known.global_shape} and as {part.dtype} too")
        if volume(part.box) > 0 and (part.name, part.box) in seen:
            raise ValueError(f"{part.key} is given twice")
        seen.add((part.name, part.box))
    return first


def _header(parts: Sequence[Part], *, step: int, rank: int) -> bytes:
    items, begin = [], 0
    for part in parts:
        items.append(
            Item(key=part.key, dtype=part.dtype, shape=box_shape(part.box), begin=begin, num_bytes=part.bits.nbytes)
        )
        begin += part.bits.nbytes
    # "format": "pt" is what Hugging Face's loaders ask of a file before they read it.
    return header_bytes(items, {"format": "pt", "emberward_checkpoint": "1", "step": str(step), "rank": str(rank)})


def _write_part(file: WritableFile, part: Part, pace: Pace) -> tuple[int, ...]:
    """Writes the part's bytes; the CRC-32 of each block."""
    raw, crcs = part.raw(), list[int]()
    for begin in range(0, len(raw), SPAN_BYTES):
        crcs += pace.do(partial(_write_span, file, raw[begin : begin + SPAN_BYTES]))
    return tuple(crcs)


def _write_span(file: WritableFile, span: memoryview) -> list[int]:
    """Writes the bytes; the CRC-32 of each block, taken while it is in the cache."""
    crcs = []
    for begin in range(0, len(span), BLOCK_BYTES):
        block = span[begin : begin + BLOCK_BYTES]
        crcs.append(crc32(block))
        write_all(file, block)
    return crcs


def _digest_shares(part: Part, pace: Pace) -> Iterator[int]:
    """Shares that add up to the part's: one for each span of rows along the first dim."""
    if not part.box:
        yield pace.do(partial(partial_digest, part.bits, part.box))
        return
    (first, _), *rest = part.box
    num_rows = max(SPAN_BYTES * len(part.bits) // part.bits.nbytes, 1)
    for top in range(0, len(part.bits), num_rows):
        rows = part.bits[top : top + num_rows]
        yield pace.do(partial(partial_digest, rows, ((first + top, first + top + len(rows)), *rest)))
