"""Writes files that torch.load reads, tensor by tensor out of wherever they lie; needs no torch.

Format: as `_torch_file` says. Storages begin at multiples of 64 bytes, so that they can be mapped (torch 2.13,
``caffe2/serialize/inline_container.cc``, ``kFieldAlignment``).
"""

import io
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from io import FileIO
from typing import Any, BinaryIO, cast

import numpy as np

from emberward.checkpoint._boxes import whole_box
from emberward.checkpoint._convert import write_bytes
from emberward.checkpoint._foreign._bits import convert
from emberward.checkpoint._foreign._emit import pickled
from emberward.checkpoint._foreign._read import Reader, read_tiles
from emberward.checkpoint._foreign._stored import Stored, row_major
from emberward.checkpoint._foreign._tree import Instance, Size, TensorRef
from emberward.checkpoint._format import DType

_ALIGNMENT = 64
_HEADER_BYTES = 30
_ZIP64_BYTES = 20
_ZIP64_FROM = (1 << 32) - 1
_PADDING_ID = b"FB"
"""The id of the extra field that torch pads with."""


class _Tail(io.RawIOBase):
    """The end of a file as a file of its own: an archive's offsets count from where it begins."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._begin = file.seek(0, 2)

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell() - self._begin

    def seek(self, offset: int, whence: int = 0) -> int:
        at = self._file.seek(offset + (self._begin if whence == 0 else 0), whence)
        return at - self._begin

    def write(self, data: Any) -> int:
        write_bytes(self._file, data)
        return len(data)

    def close(self) -> None:
        """Leaves the file open: it is its owner's."""


class Archive:
    """A torch file that is being written at the end of `file`. Add storages, then close it with its tree."""

    def __init__(self, file: FileIO, name: str) -> None:
        self._zip = zipfile.ZipFile(cast(BinaryIO, _Tail(file)), "w", zipfile.ZIP_STORED)
        self._name = name
        self._num_storages = 0

    def add(self, stored: Stored, reader: Reader, tick: Callable[[int], None], dtype: DType | None = None) -> TensorRef:
        """Writes the tensor as a storage of its own, converted when a `dtype` is given; the reference for the tree."""
        into = dtype or stored.dtype
        key = str(self._num_storages)
        self._num_storages += 1
        num_bytes = stored.num_elements * into.item_bytes
        with self._open(f"data/{key}", num_bytes) as entry:
            for _, bits in read_tiles(reader, stored, whole_box(stored.shape)):
                written = np.ascontiguousarray(convert(bits, stored.dtype, into))
                entry.write(written.reshape(-1).view(np.uint8).data)
                tick(written.nbytes)
        return TensorRef(dtype=into, shape=stored.shape, strides=row_major(stored.shape), key=key, offset=0)

    def close(self, tree: Any) -> None:
        """Writes the tree and the list of entries."""
        for name, data in (("data.pkl", pickled(tree)), ("byteorder", b"little"), ("version", b"3\n")):
            with self._open(name, len(data)) as entry:
                entry.write(data)
        self._zip.close()

    def _open(self, name: str, num_bytes: int) -> Any:
        info = zipfile.ZipInfo(f"{self._name}/{name}")
        is_large = num_bytes >= _ZIP64_FROM
        assert self._zip.fp is not None
        begin = (
            self._zip.fp.tell() + _HEADER_BYTES + len(info.filename.encode()) + (_ZIP64_BYTES if is_large else 0) + 4
        )
        padding = -begin % _ALIGNMENT
        info.extra = _PADDING_ID + padding.to_bytes(2, "little") + b"Z" * padding
        info.file_size = num_bytes
        return self._zip.open(info, "w", force_zip64=is_large)


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
