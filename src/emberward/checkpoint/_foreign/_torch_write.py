"""Writes files that torch.load reads, tensor by tensor out of wherever they lie; needs no torch.

Format: as `_torch_file` says. Storages begin at multiples of 64 bytes, so that they can be mapped (torch 2.13,
``caffe2/serialize/inline_container.cc``, ``kFieldAlignment``).
"""

import os
import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from typing import Any

import numpy as np

from emberward.checkpoint._boxes import whole_box
from emberward.checkpoint._convert import write_bytes
from emberward.checkpoint._crc import crc32
from emberward.checkpoint._foreign._bits import convert
from emberward.checkpoint._foreign._emit import pickled
from emberward.checkpoint._foreign._read import Reader, read_tiles
from emberward.checkpoint._foreign._stored import Stored, row_major
from emberward.checkpoint._foreign._tree import Instance, Size, TensorRef
from emberward.checkpoint._format import DType

_ALIGNMENT = 64
_PADDING_ID = b"FB"
"""The id of the extra field that torch pads with."""
_SMALL_BYTES = 1 << 16
"""What is shorter goes to the file together with what follows it."""

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR_64 = struct.Struct("<4sIQI")
"""Records of a zip (PKWARE APPNOTE 6.3, 4.3.7, 4.3.12, 4.3.16, 4.3.14, 4.3.15)."""
_CRC_AT = 14
_MAX_32 = (1 << 32) - 1
_MAX_16 = (1 << 16) - 1
"""These stand where a number is too large for its field, and say that it is elsewhere."""
_WIDE_FROM = _MAX_32
_UTF_8 = 0x800
_JAN_1980 = 0x21
_VERSION, _VERSION_64 = 20, 45


@dataclass(slots=True, kw_only=True)
class _Entry:
    """One entry of an archive: where its header begins, and what the directory says of it."""

    name: bytes
    num_bytes: int
    header_at: int
    crc: int = 0

    @property
    def is_large(self) -> bool:
        return self.num_bytes >= _WIDE_FROM

    def local_header(self) -> bytes:
        """The record before the bytes, padded so that they are aligned."""
        version, size = (_VERSION_64, _MAX_32) if self.is_large else (_VERSION, self.num_bytes)
        extra = struct.pack("<2H2Q", 1, 16, self.num_bytes, self.num_bytes) if self.is_large else b""
        padding = -(self.header_at + _LOCAL.size + len(self.name) + len(extra) + 4) % _ALIGNMENT
        extra += _PADDING_ID + padding.to_bytes(2, "little") + b"Z" * padding
        head = (b"PK\3\4", version, _UTF_8, 0, 0, _JAN_1980, self.crc, size, size, len(self.name), len(extra))
        return _LOCAL.pack(*head) + self.name + extra

    def record(self) -> bytes:
        """The directory's record; what is too large for it stands in a field of its own."""
        wide = [n for n in (self.num_bytes, self.num_bytes, self.header_at) if n >= _WIDE_FROM]
        extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
        version, size = (_VERSION_64 if wide else _VERSION), (_MAX_32 if self.is_large else self.num_bytes)
        head = (b"PK\1\2", version, version, _UTF_8, 0, 0, _JAN_1980, self.crc, size, size, len(self.name), len(extra))
        at = _MAX_32 if self.header_at >= _WIDE_FROM else self.header_at
        return _CENTRAL.pack(*head, 0, 0, 0, 0, at) + self.name + extra


class Archive:
    """A torch file that is being written at the end of `file`. Add storages, then close it with its tree.

    Python's own zipfile takes half a millisecond for a small one, and a universal checkpoint has four to a parameter.
    """

    def __init__(self, file: FileIO, name: str) -> None:
        self._file = file
        self._begin = file.seek(0, 2)
        self._at = 0
        self._pending = bytearray()
        self._name = name
        self._entries: list[_Entry] = []

    def add(self, stored: Stored, reader: Reader, tick: Callable[[int], None], dtype: DType | None = None) -> TensorRef:
        """Writes the tensor as a storage of its own, converted when a `dtype` is given; the reference for the tree."""
        into = dtype or stored.dtype
        key = str(len(self._entries))
        entry = self._open(f"data/{key}", stored.num_elements * into.item_bytes)
        for _, bits in read_tiles(reader, stored, whole_box(stored.shape)):
            written = np.ascontiguousarray(convert(bits, stored.dtype, into))
            data = written.reshape(-1).view(np.uint8).data
            entry.crc = crc32(data, entry.crc)
            self._set_crc(entry)
            self._put(data)
            tick(len(data))
        return TensorRef(dtype=into, shape=stored.shape, strides=row_major(stored.shape), key=key, offset=0)

    def close(self, tree: Any) -> None:
        """Writes the tree and the list of entries."""
        for name, data in (("data.pkl", pickled(tree)), ("byteorder", b"little"), ("version", b"3\n")):
            entry = self._open(name, len(data))
            entry.crc = crc32(data)
            self._set_crc(entry)
            self._put(data)
        directory, at = b"".join(entry.record() for entry in self._entries), self._at
        self._put(directory)
        self._put(_end_of(len(self._entries), len(directory), at))
        self._flush()

    def _open(self, name: str, num_bytes: int) -> _Entry:
        entry = _Entry(name=f"{self._name}/{name}".encode(), num_bytes=num_bytes, header_at=self._at)
        self._entries.append(entry)
        self._put(entry.local_header())
        return entry

    def _set_crc(self, entry: _Entry) -> None:
        """Puts the entry's checksum into its header, which may be in the file already."""
        data, at = entry.crc.to_bytes(4, "little"), entry.header_at + _CRC_AT
        unwritten = at - (self._at - len(self._pending))
        if unwritten >= 0:
            self._pending[unwritten : unwritten + 4] = data
        else:
            os.pwrite(self._file.fileno(), data, self._begin + at)

    def _put(self, data: memoryview | bytes) -> None:
        self._at += len(data)
        if len(data) < _SMALL_BYTES:
            self._pending += data
            return
        self._flush()
        write_bytes(self._file, data)

    def _flush(self) -> None:
        write_bytes(self._file, memoryview(self._pending))
        self._pending = bytearray()


def _end_of(num_entries: int, num_bytes: int, at: int) -> bytes:
    """The end of an archive whose directory begins at `at`, with the wide form before it where numbers are large."""
    wide = b""
    if at >= _WIDE_FROM or num_entries >= _MAX_16:
        body = (_END_64.size - 12, _VERSION_64, _VERSION_64, 0, 0, num_entries, num_entries, num_bytes, at)
        wide = _END_64.pack(b"PK\6\6", *body) + _LOCATOR_64.pack(b"PK\6\7", 0, at + num_bytes, 1)
    count = min(num_entries, _MAX_16)
    return wide + _END.pack(b"PK\5\6", 0, 0, count, count, num_bytes, _MAX_32 if wide else at, 0)


def placed_in(archive: Archive, tree: Any, reader: Reader, tick: Callable[[int], None]) -> Any:
    """`tree` with each `Stored` written into the archive and replaced by its reference."""
    if isinstance(tree, Stored):
        return archive.add(tree, reader, tick)
    if isinstance(tree, Size):
        return tree
    if isinstance(tree, OrderedDict):
        return OrderedDict((key, placed_in(archive, item, reader, tick)) for key, item in tree.items())
    if isinstance(tree, dict):
        return {key: placed_in(archive, item, reader, tick) for key, item in tree.items()}
    if isinstance(tree, list):
        return [placed_in(archive, item, reader, tick) for item in tree]
    if isinstance(tree, tuple):
        return tuple(placed_in(archive, item, reader, tick) for item in tree)
    if isinstance(tree, Instance):
        args, state = (placed_in(archive, part, reader, tick) for part in (tree.args, tree.state))
        return Instance(of=tree.of, args=args, is_called=tree.is_called, state=state)
    return tree


def write_torch_file(file: FileIO, name: str, tree: Any, tick: Callable[[int], None]) -> None:
    """Writes `tree`, whose tensors are `Stored`, as a torch file."""
    archive = Archive(file, name)
    with Reader() as reader:
        archive.close(placed_in(archive, tree, reader, tick))


def tensor_bytes(tree: Any) -> int:
    """Bytes of the tensors of a tree."""
    if isinstance(tree, Stored):
        return tree.num_bytes
    if isinstance(tree, Instance):
        return tensor_bytes(tree.args) + tensor_bytes(tree.state)
    if isinstance(tree, dict):
        return sum(map(tensor_bytes, tree.values()))
    return sum(map(tensor_bytes, tree)) if isinstance(tree, (list, tuple)) else 0
