"""Files that torch.save wrote: what they hold, and where each tensor's bytes lie; no tensor is loaded.

Format: torch 2.13, ``torch/serialization.py`` and ``caffe2/serialize/inline_container.h``: a zip without compression
with ``NAME/data.pkl``, ``NAME/data/KEY`` for each storage, and ``NAME/byteorder``.
"""

import io
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from emberward.checkpoint._boxes import whole_box
from emberward.checkpoint._foreign._evidence import Evidence, Record
from emberward.checkpoint._foreign._pickle_bounds import MAX_BYTES
from emberward.checkpoint._foreign._problems import unreadable
from emberward.checkpoint._foreign._stored import Region, Stored
from emberward.checkpoint._foreign._tree import Instance, Size, TensorRef
from emberward.checkpoint._foreign._unpickle import unpickle
from emberward.checkpoint._plain_file import open_plain

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_UTF_8 = 0x800
"""A zip's header of one entry, and the flag of names in UTF-8 (PKWARE APPNOTE 6.3, 4.3.7 and 4.4.4)."""


class _Window(io.RawIOBase):
    """A range of a file that reads as a file of its own: DCP puts one archive after the other."""

    def __init__(self, path: Path, begin: int, length: int | None) -> None:
        self._file = open_plain(path)
        self._begin = begin
        self._length = self._file.seek(0, 2) - begin if length is None else length
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0 if whence == 0 else self._at if whence == 1 else self._length)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer)[: max(0, self._length - self._at)]
        self._file.seek(self._begin + self._at)
        taken: int = self._file.readinto(room) or 0
        self._at += taken
        return taken

    def close(self) -> None:
        self._file.close()
        super().close()


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchFile:
    """What one archive holds: `tree` with a `TensorRef` for each tensor, and by its key where each storage lies."""

    path: Path
    tree: Any
    storages: Mapping[str, Record]

    def stored(self, ref: TensorRef, name: str) -> Stored:
        """The tensor as a stored one. Raises K110 when it reaches beyond its storage."""
        record = self.storages.get(ref.key)
        num_bytes = -1 if record is None else record.num_bytes
        reach = ref.offset + 1 + sum((n - 1) * stride for n, stride in zip(ref.shape, ref.strides, strict=True))
        if 0 not in ref.shape and reach * ref.dtype.item_bytes > num_bytes:
            raise unreadable(
                "a tensor reaches beyond its storage",
                where=f"{self.path} tensor {name}",
                expected=f"at least {reach * ref.dtype.item_bytes} bytes",
                found="no such storage" if num_bytes < 0 else f"{num_bytes} bytes",
            )
        region = Region(
            box=whole_box(ref.shape),
            where=self.path,
            offset=(0 if record is None else record.begin) + ref.offset * ref.dtype.item_bytes,
            strides=ref.strides,
            record=record,
        )
        return Stored(name=name, dtype=ref.dtype, shape=ref.shape, regions=() if 0 in ref.shape else (region,))

    def placed(self, tree: Any, name: str = "") -> Any:
        """A part of the tree with each tensor as a stored one, named by the keys that lead to it."""
        if isinstance(tree, TensorRef):
            return self.stored(tree, name)
        if isinstance(tree, dict):
            return type(tree)((key, self.placed(item, f"{name}/{key}")) for key, item in tree.items())
        if isinstance(tree, Size):
            return tree
        if isinstance(tree, (list, tuple)):
            return type(tree)(self.placed(item, f"{name}/{index}") for index, item in enumerate(tree))
        if isinstance(tree, Instance):
            return replace(tree, args=self.placed(tree.args, name), state=self.placed(tree.state, name))
        return tree


class Archives:
    """The torch files of one checkpoint, each opened once, and the evidence of all of them."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self._open: dict[Path, TorchFile] = {}

    @property
    def files(self) -> tuple[TorchFile, ...]:
        """Those that were opened."""
        return tuple(self._open.values())

    def open(self, path: Path) -> TorchFile:
        """The file, as `open_torch_file` reads it."""
        if path not in self._open:
            self._open[path] = open_torch_file(path, self.evidence)
        return self._open[path]


def open_torch_file(
    path: Path, evidence: Evidence | None = None, *, begin: int = 0, length: int | None = None
) -> TorchFile:
    """What the archive in `path` (or in the range of it) holds. Reads the pickle and the list of entries, no tensor.

    Its records count as `evidence`. Raises K110 when it cannot be read: damaged, compressed or of torch before 1.6;
    K111 when its pickle names what is not known; K123 when the archive was written under the name of another file.
    """
    try:
        with _Window(path, begin, length) as window, zipfile.ZipFile(window) as archive:
            return _read_archive(path, archive, begin, evidence or Evidence())
    except (OSError, zipfile.BadZipFile, struct.error, NotImplementedError, ValueError, MemoryError) as error:
        found = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise unreadable(
            "a file is not one that torch.save wrote, or it is damaged",
            where=str(path),
            expected="a zip archive without compression (torch 1.6 or later)",
            found=found,
        ) from error


def _read_archive(path: Path, archive: zipfile.ZipFile, begin: int, evidence: Evidence) -> TorchFile:
    entries = {entry.filename.partition("/")[2]: entry for entry in archive.infolist()}
    if "data.pkl" not in entries:
        raise zipfile.BadZipFile("no entry data.pkl")
    if len(entries) != len(archive.infolist()):
        raise zipfile.BadZipFile("two entries have one name")
    for name, entry in entries.items():
        if entry.compress_type != zipfile.ZIP_STORED:
            raise zipfile.BadZipFile(f"entry {name} is compressed")
    if entries["data.pkl"].file_size > MAX_BYTES:
        raise zipfile.BadZipFile(f"a pickle of {entries['data.pkl'].file_size} bytes; {MAX_BYTES} are read at most")
    _require_name(path, entries["data.pkl"].filename.partition("/")[0], evidence)
    if "byteorder" in entries and archive.read(entries["byteorder"]) != b"little":
        raise unreadable("a file's numbers are big-endian", where=str(path), expected="little-endian", found="big")
    storages = {}
    for name, entry in entries.items():
        at = begin + _data_offset(archive, entry)
        record = evidence.record(path=path, name=name, begin=at, num_bytes=entry.file_size, crc=entry.CRC)
        if name.startswith("data/"):
            storages[name.removeprefix("data/")] = record
    tree = unpickle(archive.read(entries["data.pkl"]), str(path))
    return TorchFile(path=path, tree=tree, storages=storages)


def _require_name(path: Path, name: str, evidence: Evidence) -> None:
    """torch names an archive after the file that it writes; one that it writes to a stream is called ``archive``."""
    if name not in ("archive", path.stem):
        evidence.contradict(path, "the archive was written as another file", path.stem, name)


def _data_offset(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """Where the entry's bytes begin, by its own header: its extra field may be longer than the directory's."""
    file = archive.fp
    assert file is not None
    file.seek(entry.header_offset)
    fields = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if fields[0] != b"PK\3\4" or file.read(int(fields[9])) != _raw_name(entry):
        raise zipfile.BadZipFile(f"the header of entry {entry.filename} is not where the directory says")
    return entry.header_offset + _LOCAL_HEADER.size + int(fields[9]) + int(fields[10])


def _raw_name(entry: zipfile.ZipInfo) -> bytes:
    return entry.orig_filename.encode("utf-8" if entry.flag_bits & _UTF_8 else "cp437")


def tensors_in(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], TensorRef]]:
    """Every tensor of a tree with the keys that lead to it."""
    if isinstance(tree, TensorRef):
        yield path, tree
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from tensors_in(item, (*path, key))
    elif isinstance(tree, (list, tuple)):
        for index, item in enumerate(tree):
            yield from tensors_in(item, (*path, index))
    elif isinstance(tree, Instance):
        yield from tensors_in((tree.args, tree.state), path)
