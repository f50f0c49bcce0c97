"""The manifest: what a save holds and how each byte of it is proved. Format version 1, see ``docs/checkpoints.md``.

[Note: proof of a manifest]
``manifest.json`` is one JSON object. Its first line is ``{"emberward_checkpoint": 1, "blake2b": "<32 hex digits>",``:
BLAKE2b with a digest of 16 bytes (RFC 7693) over all bytes of the file but those 32 digits. A manifest that is cut,
edited or flipped in a single bit is refused, never believed in part.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from emberward.checkpoint._boxes import is_inside, volume
from emberward.checkpoint._crc import BLOCK_BYTES, num_blocks
from emberward.checkpoint._names import is_rank_file
from emberward.layout import Box

FORMAT_VERSION = 1
_HEX_DIGITS = 32


class FormatProblem(ValueError):
    """Why bytes are not what they should be, in words for `found`. Never leaves the room."""


class NewerFormat(FormatProblem):
    """Written by a later version of the format."""


class DType(StrEnum):
    """Number types, by the names of the safetensors format."""

    F64 = "F64"
    F32 = "F32"
    F16 = "F16"
    BF16 = "BF16"
    F8_E4M3 = "F8_E4M3"
    F8_E5M2 = "F8_E5M2"
    I64 = "I64"
    I32 = "I32"
    I16 = "I16"
    I8 = "I8"
    U64 = "U64"
    U32 = "U32"
    U16 = "U16"
    U8 = "U8"
    BOOL = "BOOL"
    C64 = "C64"

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        digits = re.search(r"\d+", self.value)
        return 1 if digits is None else int(digits[0]) // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A box of a tensor as it lies in a file: bytes row-major from `offset`, one CRC-32 for each block of 1 MiB."""

    file: str
    key: str
    box: Box
    offset: int
    crc32: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry:
    """A logical tensor. `pieces` tile it without overlap; `digest` is that of [Note: tensor digest]."""

    dtype: DType
    shape: tuple[int, ...]
    digest: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A data file: its size, the CRC-32 of all its bytes, and of its header (the first `header_bytes`) alone."""

    name: str
    size_bytes: int
    crc32: int
    header_bytes: int
    header_crc32: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything about a save but its numbers. `serial` counts the saves of a checkpoint root in the order they were
    made."""

    step: int
    serial: int
    world_size: int
    meta: Mapping[str, Any]
    files: tuple[FileEntry, ...]
    tensors: Mapping[str, TensorEntry]

    @property
    def num_bytes(self) -> int:
        """Bytes of all data files."""
        return sum(file.size_bytes for file in self.files)


def to_proved_json(kind: str, body: Mapping[str, Any]) -> bytes:
    """`body` as a JSON document that proves itself. See [Note: proof of a manifest]. One line a tensor or file."""
    lines = []
    for key, value in body.items():
        if isinstance(value, dict) and key == "tensors" and value:
            rows = ",\n ".join(f"{_dump(name)}:{_dump(entry)}" for name, entry in value.items())
            lines.append(f"{_dump(key)}: {{\n {rows}\n}}")
        elif isinstance(value, list) and key == "files" and value:
            lines.append(f"{_dump(key)}: [\n " + ",\n ".join(map(_dump, value)) + "\n]")
        else:
            lines.append(f"{_dump(key)}: {_dump(value)}")
    head = f'{{"{kind}": {FORMAT_VERSION}, "blake2b": "'.encode()
    tail = ('",\n' + ",\n".join(lines) + "}\n").encode()
    return head + hashlib.blake2b(head + tail, digest_size=_HEX_DIGITS // 2).hexdigest().encode() + tail


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def from_proved_json(kind: str, data: bytes) -> dict[str, Any]:
    """The body that `to_proved_json` wrote. Raises FormatProblem."""
    match = re.match(rb'\{"([a-z_]+)": (\d+), "blake2b": "([0-9a-f]{%d})",' % _HEX_DIGITS, data)
    if match is None or match[1].decode() != kind:
        raise FormatProblem(f"{len(data)} bytes that do not begin as a {kind} file does")
    if int(match[2]) > FORMAT_VERSION:
        raise NewerFormat(f"format version {int(match[2])}")
    proof = hashlib.blake2b(data[: match.start(3)] + data[match.end(3) :], digest_size=_HEX_DIGITS // 2).hexdigest()
    if proof != match[3].decode():
        raise FormatProblem(f"BLAKE2b {proof} over {len(data)} bytes, written as {match[3].decode()}")
    body = json.loads(data)
    assert isinstance(body, dict)
    return body


def tensor_to_json(entry: TensorEntry) -> dict[str, Any]:
    """The tensor as it stands in a manifest or a rank's index."""
    return {
        "dtype": entry.dtype.value,
        "shape": list(entry.shape),
        "digest": f"{entry.digest:016x}",
        "pieces": [
            {
                "file": piece.file,
                "key": piece.key,
                "box": [list(ends) for ends in piece.box],
                "offset": piece.offset,
                "crc32": "".join(f"{crc:08x}" for crc in piece.crc32),
            }
            for piece in entry.pieces
        ],
    }


def tensor_from_json(data: Mapping[str, Any]) -> TensorEntry:
    """The tensor that `tensor_to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
    dtype, shape = DType(data["dtype"]), tuple(int(length) for length in data["shape"])
    pieces = []
    for row in data["pieces"]:
        crcs = row["crc32"]
        piece = Piece(
            file=row["file"],
            key=row["key"],
            box=tuple((int(start), int(stop)) for start, stop in row["box"]),
            offset=row["offset"],
            crc32=tuple(int(crcs[at : at + 8], 16) for at in range(0, len(crcs), 8)),
        )
        if not is_inside(piece.box, shape) or not is_rank_file(piece.file):
            raise ValueError(f"piece {piece.key} does not lie within its tensor or folder")
        if len(piece.crc32) != num_blocks(volume(piece.box) * dtype.item_bytes):
            raise ValueError(f"piece {piece.key} has {len(piece.crc32)} block checksums")
        pieces.append(piece)
    return TensorEntry(dtype=dtype, shape=shape, digest=int(data["digest"], 16), pieces=tuple(pieces))


def file_to_json(entry: FileEntry) -> dict[str, Any]:
    """The file as it stands in a manifest or a rank's index."""
    return {
        "name": entry.name,
        "size_bytes": entry.size_bytes,
        "crc32": f"{entry.crc32:08x}",
        "header_bytes": entry.header_bytes,
        "header_crc32": f"{entry.header_crc32:08x}",
    }


def file_from_json(data: Mapping[str, Any]) -> FileEntry:
    """The file that `file_to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
    if not is_rank_file(data["name"]):
        raise ValueError(f"{data['name']!r} is no data file's name")
    return FileEntry(
        name=data["name"],
        size_bytes=data["size_bytes"],
        crc32=int(data["crc32"], 16),
        header_bytes=data["header_bytes"],
        header_crc32=int(data["header_crc32"], 16),
    )


def manifest_to_bytes(manifest: Manifest) -> bytes:
    """The bytes of ``manifest.json``. Raises TypeError or ValueError when `meta` is not JSON."""
    return to_proved_json(
        "emberward_checkpoint",
        {
            "step": manifest.step,
            "serial": manifest.serial,
            "world_size": manifest.world_size,
            "block_bytes": BLOCK_BYTES,
            "meta": dict(manifest.meta),
            "files": [file_to_json(file) for file in manifest.files],
            "tensors": {name: tensor_to_json(entry) for name, entry in manifest.tensors.items()},
        },
    )


def manifest_from_bytes(data: bytes) -> Manifest:
    """The manifest in the bytes of ``manifest.json``. Raises FormatProblem."""
    body = from_proved_json("emberward_checkpoint", data)
    try:
        if body["block_bytes"] != BLOCK_BYTES:
            raise ValueError(f"blocks of {body['block_bytes']} bytes")
        return Manifest(
            step=body["step"],
            serial=body["serial"],
            world_size=body["world_size"],
            meta=body["meta"],
            files=tuple(file_from_json(row) for row in body["files"]),
            tensors={name: tensor_from_json(row) for name, row in body["tensors"].items()},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FormatProblem(f"a manifest that breaks its format: {error!r}") from error
