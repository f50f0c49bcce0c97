"""Writes one of our saves out of stored tensors, whatever files they lie in.

See ``docs/checkpoints.md`` for the format.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from emberward.checkpoint._boxes import box_shape, box_text, volume
from emberward.checkpoint._convert import OutFile, Plan, Tick, write_bytes
from emberward.checkpoint._crc import BLOCK_BYTES, combine_crc32, crc32
from emberward.checkpoint._digest import add_digests, partial_digest
from emberward.checkpoint._foreign._bits import FLOATS, convert
from emberward.checkpoint._foreign._read import Reader, read_tiles
from emberward.checkpoint._foreign._source import Form, Source
from emberward.checkpoint._foreign._stored import Stored
from emberward.checkpoint._format import (
    DType,
    FileEntry,
    Manifest,
    Piece,
    TensorEntry,
    file_from_json,
    file_to_json,
    manifest_to_bytes,
    tensor_from_json,
    tensor_to_json,
)
from emberward.checkpoint._names import MANIFEST, PROBE, rank_file_name, step_name
from emberward.checkpoint._root import next_serial, write_pointer
from emberward.checkpoint._safetensors import Item, header_bytes
from emberward.checkpoint._storage import DISK, write_new
from emberward.checkpoint._tiling import merge_tensors
from emberward.checkpoint._writer import RankIndex
from emberward.layout import Box, chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """The part of a tensor that goes into one file, and the number type in which."""

    stored: Stored
    box: Box
    dtype: DType

    @property
    def key(self) -> str:
        return self.stored.name + box_text(self.box)

    @property
    def num_bytes(self) -> int:
        return volume(self.box) * self.dtype.item_bytes


def plan_save(
    source: Source, root: Path, *, step: int, num_ranks: int, dtype: DType | None, meta: Mapping[str, Any]
) -> Plan:
    """The conversion of a source into a save of `step` in the folder of saves, cut into the files of `num_ranks` ranks.

    Each tensor is cut along its first dim as FSDP cuts it (`chunk`), so that a rank of as many reads one file. `dtype`
    converts the weights and moments that are floats; None keeps every type.
    """
    shares = [_shares_of(source, rank, num_ranks, dtype) for rank in range(num_ranks)]
    files = tuple(
        OutFile(
            name=rank_file_name(rank),
            num_bytes=sum(share.num_bytes for share in of_rank),
            write=_Writer(shares=tuple(of_rank), rank=rank, step=step),
        )
        for rank, of_rank in enumerate(shares)
        if of_rank
    )
    declared = {
        name: TensorEntry(dtype=_dtype_of(name, stored, dtype), shape=stored.shape, digest=0, pieces=())
        for name, stored in source.tensors.items()
    }
    result = root / step_name(step)

    def finish(temporary: Path, results: Mapping[str, Mapping[str, Any]]) -> None:
        indexes = [_index(index, result) for index, result in enumerate(results[file.name] for file in files)]
        empty = {name: entry for name, entry in declared.items() if 0 in entry.shape}
        manifest = Manifest(
            step=step,
            serial=next_serial(root),
            world_size=num_ranks,
            meta=meta,
            files=tuple(index.file for index in indexes if index.file is not None),
            tensors={**merge_tensors(indexes), **empty},
        )
        (temporary / MANIFEST).unlink(missing_ok=True)
        write_new(DISK, temporary / MANIFEST, manifest_to_bytes(manifest))
        _copy_probe(source, temporary, dtype)

    about = {
        "form": "emberward",
        "sources": source_stamp(source),
        "ranks": num_ranks,
        "dtype": None if dtype is None else dtype.value,
        "meta": dict(meta),
        "findings": [finding.message for finding in source.findings],
    }
    return Plan(result=result, files=files, about=about, finish=finish, num_tensors=len(source.tensors))


def _copy_probe(source: Source, temporary: Path, dtype: DType | None) -> None:
    """What the saved model made of one batch holds for a copy too, as long as no number is rounded."""
    probe = source.path / PROBE
    if source.form is Form.EMBERWARD and dtype is None and probe.is_file():
        (temporary / PROBE).unlink(missing_ok=True)
        write_new(DISK, temporary / PROBE, probe.read_bytes())


def point_to(result: Path) -> None:
    """Points the folder's ``latest`` at a save that a conversion has made."""
    write_pointer(DISK, result.parent, result.name)


def source_stamp(source: Source) -> list[list[Any]]:
    """What tells the files of a source from others of the same names: sizes and times of change."""
    stamps = []
    for path in source.files:
        status = path.stat()
        stamps.append([str(path), status.st_size, status.st_mtime_ns])
    return stamps


def _dtype_of(name: str, stored: Stored, dtype: DType | None) -> DType:
    is_number = name.startswith(("model/", "optim/")) and stored.dtype in FLOATS
    return dtype if dtype is not None and is_number else stored.dtype


def _shares_of(source: Source, rank: int, num_ranks: int, dtype: DType | None) -> list[_Share]:
    """What goes into the file of `rank`, larger number types first so that each is aligned."""
    shares = []
    for name, stored in sorted(source.tensors.items()):
        if not stored.shape:
            box: Box = ()
            if rank > 0:
                continue
        else:
            box = (chunk(stored.shape[0], num_ranks, rank), *((0, length) for length in stored.shape[1:]))
        if volume(box) > 0:
            shares.append(_Share(stored=stored, box=box, dtype=_dtype_of(name, stored, dtype)))
    return sorted(shares, key=lambda share: (-share.dtype.item_bytes, share.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Writes the file of one rank, tile by tile, with its checksums and shares of digests."""

    shares: Sequence[_Share]
    rank: int
    step: int

    def __call__(self, file: FileIO, tick: Tick) -> Mapping[str, Any]:
        header = self._header()
        write_bytes(file, header)
        crc, offset, name = crc32(header), len(header), rank_file_name(self.rank)
        tensors = {}
        with Reader() as reader:
            for share in self.shares:
                crcs, digest = _write_share(file, reader, share, tick)
                for block, block_crc in enumerate(crcs):
                    crc = combine_crc32(crc, block_crc, min(BLOCK_BYTES, share.num_bytes - block * BLOCK_BYTES))
                piece = Piece(file=name, key=share.key, box=share.box, offset=offset, crc32=crcs)
                tensors[share.stored.name] = TensorEntry(
                    dtype=share.dtype, shape=share.stored.shape, digest=digest, pieces=(piece,)
                )
                offset += share.num_bytes
        entry = FileEntry(name=name, size_bytes=offset, crc32=crc, header_bytes=len(header), header_crc32=crc32(header))
        return {"file": file_to_json(entry), "tensors": {key: tensor_to_json(made) for key, made in tensors.items()}}

    def _header(self) -> bytes:
        items, begin = [], 0
        for share in self.shares:
            shape = box_shape(share.box)
            items.append(Item(key=share.key, dtype=share.dtype, shape=shape, begin=begin, num_bytes=share.num_bytes))
            begin += share.num_bytes
        words = {"format": "pt", "emberward_checkpoint": "1", "step": str(self.step), "rank": str(self.rank)}
        return header_bytes(items, words)


def _write_share(file: FileIO, reader: Reader, share: _Share, tick: Tick) -> tuple[tuple[int, ...], int]:
    """CRC-32 of each block, and the share of the tensor's digest."""
    crcs, digests, room = list[int](), list[int](), 0
    for box, raw in read_tiles(reader, share.stored, share.box):
        bits = np.ascontiguousarray(convert(raw, share.stored.dtype, share.dtype))
        digests.append(partial_digest(bits, box))
        data = bits.reshape(-1).view(np.uint8).data
        write_bytes(file, data)
        at = 0
        while at < len(data):
            if room == 0:
                crcs.append(0)
                room = BLOCK_BYTES
            taken = data[at : at + room]
            crcs[-1] = crc32(taken, crcs[-1])
            at, room = at + len(taken), room - len(taken)
        tick(raw.nbytes * share.dtype.item_bytes // share.stored.dtype.item_bytes)
    return tuple(crcs), add_digests(digests)


def _index(rank: int, result: Mapping[str, Any]) -> RankIndex:
    return RankIndex(
        rank=rank,
        file=file_from_json(result["file"]),
        tensors={name: tensor_from_json(row) for name, row in result["tensors"].items()},
    )
