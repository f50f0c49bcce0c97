"""Changes tensors inside torch files in place, and puts the archive's checksums right.

torch.load compares the CRC-32 of an entry that it reads (torch 2.13, ``caffe2/serialize/inline_container.cc``), so a
changed storage needs a new one in its local header and in the directory (PKWARE APPNOTE 6.3, 4.3.7, 4.3.9, 4.3.12).
"""

import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from emberward.checkpoint._boxes import box_shape, relative_slices, whole_box
from emberward.checkpoint._foreign._problems import unreadable
from emberward.checkpoint._foreign._stored import Stored, row_major
from emberward.checkpoint._part import UintArray

_LOCAL_CRC = 14
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_CENTRAL_CRC = 16
_HAS_DESCRIPTOR = 0x08
_READ_BYTES = 1 << 20


def overwrite(stored: Stored, bits: UintArray, moved: dict[Path, Path]) -> None:
    """Writes `bits` where the tensor lies, in the copies that `moved` names for its files.

    Regions must be contiguous.
    """
    for region in stored.regions:
        shape = box_shape(region.box)
        assert isinstance(region.where, Path) and region.strides == row_major(shape), "a flat or whole tensor"
        data = bits[relative_slices(region.box, whole_box(stored.shape))].tobytes()
        with moved[region.where].open("r+b") as file:
            file.seek(region.offset)
            file.write(data)


def mend_checksums(path: Path) -> None:
    """Puts the checksum of every entry of a torch file right, and returns when they are on the disk."""
    with path.open("r+b") as file:
        with zipfile.ZipFile(file) as archive:
            entries, directory = archive.infolist(), archive.start_dir
        for entry in entries:
            crc = _crc_of(file, path, entry)
            if crc != entry.CRC:
                _write_crc(file, entry, crc, _record_of(file, directory, entry))
        os.fsync(file.fileno())


def _crc_of(file: BinaryIO, path: Path, entry: zipfile.ZipInfo) -> int:
    begin, crc, rest = _data_offset(file, entry), 0, entry.file_size
    file.seek(begin)
    while rest > 0:
        data = file.read(min(rest, _READ_BYTES))
        if not data:
            raise unreadable("a file is cut", where=str(path), expected=f"{entry.file_size} bytes of {entry.filename}")
        crc, rest = zlib.crc32(data, crc), rest - len(data)
    return crc


def _data_offset(file: BinaryIO, entry: zipfile.ZipInfo) -> int:
    file.seek(entry.header_offset + 26)
    name_bytes, extra_bytes = struct.unpack("<2H", file.read(4))
    return int(entry.header_offset + 30 + name_bytes + extra_bytes)


def _record_of(file: BinaryIO, directory: int, wanted: zipfile.ZipInfo) -> int:
    """Where the directory's record of an entry begins."""
    at = directory
    while True:
        file.seek(at)
        fields: Sequence[int] = _CENTRAL.unpack(file.read(_CENTRAL.size))
        name = file.read(fields[10]).decode()
        if name == wanted.filename:
            return at
        at += _CENTRAL.size + fields[10] + fields[11] + fields[12]


def _write_crc(file: BinaryIO, entry: zipfile.ZipInfo, crc: int, record: int) -> None:
    data = struct.pack("<I", crc)
    end = _data_offset(file, entry) + entry.file_size
    places = [record + _CENTRAL_CRC]
    if entry.flag_bits & _HAS_DESCRIPTOR:
        file.seek(end)
        places.append(end + 4 if file.read(4) == b"PK\x07\x08" else end)
    else:
        places.append(entry.header_offset + _LOCAL_CRC)
    for place in places:
        file.seek(place)
        file.write(data)
