"""What the usual loggers write into files, read as they grow: text, CSV, JSON lines, TensorBoard's and W&B's own files.

Formats: TFRecord framing and `tensorboard/compat/proto/{event,summary,tensor}.proto` (tensorboard 2.21); LevelDB's log
of blocks under a header of 7 bytes, with `wandb/proto/wandb_internal.proto` inside (wandb 0.31). Of both only the few
fields that are needed are read, so that neither library has to be there.
"""

import csv
import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from emberward.sources.losses._line import Reading, loss_name, losses_in

MAX_POLL_BYTES = 4 << 20
"""What one poll reads of one file."""
MAX_RECORD_BYTES = 16 << 20
STEP_NAMES = ("step", "global_step", "_step", "iteration", "iter", "train_step", "trainer/global_step", "num_updates")
WANDB_HEADER_BYTES, WANDB_BLOCK_BYTES = 7, 32 << 10
_RECORD = struct.Struct("<IHB")


class _Grown:
    """A file read from where it was read last; from its start again when it shrank or was replaced."""

    def __init__(self, path: Path, at: int) -> None:
        self.path = path
        self.at = at
        self._inode: int | None = None

    def poll(self) -> list[Reading]:
        """The losses that the file got. Reads at most MAX_POLL_BYTES; [] for a file that cannot be read."""
        try:
            with self.path.open("rb") as file:
                size, inode = file.seek(0, 2), self.path.stat().st_ino
                if size < self.at or self._inode not in (None, inode):
                    self.at = 0
                    self.began_anew()
                self._inode = inode
                file.seek(self.at)
                data = file.read(MAX_POLL_BYTES)
        except OSError:
            return []
        readings, used = self.take(data)
        self.at += used
        return readings

    def began_anew(self) -> None:
        """What was kept of the file does not hold."""

    def take(self, data: bytes) -> tuple[list[Reading], int]:
        """The losses in `data`, and how much of it is done with."""
        raise NotImplementedError


class TextFile(_Grown):
    """A log of lines."""

    def take(self, data: bytes) -> tuple[list[Reading], int]:
        """See [Note: what is a loss]."""
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.decode(errors="replace").splitlines()
        return [reading for line in lines for reading in losses_in(line)], len(whole)


class JsonLines(_Grown):
    """One object a line."""

    def take(self, data: bytes) -> tuple[list[Reading], int]:
        """The values whose keys are losses; nested objects are read with their keys put together."""
        whole, found = data[: data.rfind(b"\n") + 1], []
        for line in whole.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                found += _of_row(_flat(row))
        return found, len(whole)


class CsvFile(_Grown):
    """A table whose first line names its columns."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__(path, at)
        self._names: list[str] | None = None

    def began_anew(self) -> None:
        """The first line may be another."""
        self._names = None

    def take(self, data: bytes) -> tuple[list[Reading], int]:
        """The columns whose names are losses."""
        whole, found = data[: data.rfind(b"\n") + 1], []
        if self._names is None and (names := self._head()) is None:
            return [], 0
        else:
            self._names = self._names or names
        for cells in csv.reader(whole.decode(errors="replace").splitlines()):
            if cells != self._names:
                found += _of_row(dict(zip(self._names or (), cells, strict=False)))
        return found, len(whole)

    def _head(self) -> list[str] | None:
        with self.path.open("rb") as file:
            line = file.readline(1 << 16)
        return next(csv.reader([line.decode(errors="replace").rstrip("\r\n")])) if line.endswith(b"\n") else None


class EventFile(_Grown):
    """A file of TensorBoard's."""

    def take(self, data: bytes) -> tuple[list[Reading], int]:
        """The scalars whose tags are losses."""
        found: list[Reading] = []
        at = 0
        while at + 12 <= len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            if length > MAX_RECORD_BYTES:
                return found, len(data)
            if at + 16 + length > len(data):
                break
            found += _of_event(data[at + 12 : at + 12 + length])
            at += 16 + length
        return found, at


class WandbFile(_Grown):
    """A ``run-ID.wandb`` of an offline run, or of one that is synced."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__(path, max(at, WANDB_HEADER_BYTES))
        self._part = b""

    def began_anew(self) -> None:
        """The header comes first again."""
        self.at, self._part = WANDB_HEADER_BYTES, b""

    def take(self, data: bytes) -> tuple[list[Reading], int]:
        """The history's values whose keys are losses."""
        found: list[Reading] = []
        at = 0
        while True:
            left = WANDB_BLOCK_BYTES - (self.at + at) % WANDB_BLOCK_BYTES
            if left < _RECORD.size:
                if at + left > len(data):
                    break
                at += left
                continue
            if at + _RECORD.size > len(data):
                break
            _, length, kind = _RECORD.unpack_from(data, at)
            if at + _RECORD.size + length > len(data):
                break
            part = data[at + _RECORD.size : at + _RECORD.size + length]
            at += _RECORD.size + length
            # Whole, first, middle, last.
            self._part = part if kind in (1, 2) else self._part + part
            if kind in (1, 4):
                found += _of_wandb(self._part)
                self._part = b""
        return found, at


def open_file(path: Path, at: int) -> _Grown | None:
    """What reads the file from byte `at` on, by its name; None for a file that is no log of a known kind."""
    if ".tfevents." in path.name:
        return EventFile(path, at)
    kinds = {".jsonl": JsonLines, ".ndjson": JsonLines, ".csv": CsvFile, ".wandb": WandbFile, ".log": TextFile}
    kind = kinds.get(path.suffix, TextFile if path.suffix in (".txt", ".out") else None)
    return None if kind is None else kind(path, at)


def _flat(row: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping) and not above:
            out |= _flat(value, f"{key}/")
        else:
            out[above + str(key)] = value
    return out


def _number(value: object) -> float | None:
    """A number, or a text that is one; None for anything else. NaN for one that is not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else math.nan


def _of_row(row: Mapping[str, Any]) -> list[Reading]:
    plain = {key.strip().lower(): value for key, value in row.items() if isinstance(key, str)}
    step = next((number for name in STEP_NAMES if (number := _number(plain.get(name))) is not None), None)
    epoch = _number(plain.get("epoch"))
    found = []
    for key, value in row.items():
        named, number = loss_name(str(key)), _number(value)
        if named is not None and number is not None:
            found.append(
                Reading(name=named[0], value=number, is_evaluation=named[1], step=_whole(step), epoch=_whole(epoch))
            )
    return found


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and value.is_integer() and 0 <= value < 1 << 62 else None


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a protobuf message; ends at what is cut or of another kind."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while shift < 70:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise IndexError

    try:
        while at < len(data):
            key = varint()
            if key & 7 == 0:
                yield key >> 3, varint()
                continue
            length = {1: 8, 5: 4}.get(key & 7)
            if length is None:
                if key & 7 != 2:
                    return
                length = varint()
            if at + length > len(data):
                return
            yield key >> 3, data[at : at + length]
            at += length
    except IndexError:
        return


def _of_event(data: bytes) -> list[Reading]:
    step, values = 0, []
    for number, field in _fields(data):
        if number == 2 and isinstance(field, int):
            step = field
        elif number == 5 and isinstance(field, bytes):
            values += [value for part, value in _fields(field) if part == 1 and isinstance(value, bytes)]
    found = []
    for value in values:
        parts = dict(_fields(value))
        tag, scalar = parts.get(1), _scalar(parts)
        named = loss_name(tag.decode(errors="replace")) if isinstance(tag, bytes) else None
        if named is not None and scalar is not None:
            found.append(
                Reading(
                    name=named[0],
                    value=scalar if math.isfinite(scalar) else math.nan,
                    is_evaluation=named[1],
                    step=step,
                )
            )
    return found


def _scalar(parts: Mapping[int, int | bytes]) -> float | None:
    """`simple_value`, or a tensor of one float32 (`tensor_content` or `float_val`)."""
    simple, tensor = parts.get(2), parts.get(8)
    if isinstance(simple, bytes) and len(simple) == 4:
        return float(struct.unpack("<f", simple)[0])
    if isinstance(tensor, bytes):
        inside = dict(_fields(tensor))
        content = inside.get(4) or inside.get(5)
        if inside.get(1) == 1 and isinstance(content, bytes) and len(content) == 4:
            return float(struct.unpack("<f", content)[0])
    return None


def _of_wandb(data: bytes) -> list[Reading]:
    row: dict[str, Any] = {}
    for number, history in _fields(data):
        if number != 2 or not isinstance(history, bytes):
            continue
        for part, item in _fields(history):
            if part == 1 and isinstance(item, bytes):
                fields = [(key, value) for key, value in _fields(item) if isinstance(value, bytes)]
                names = [value.decode(errors="replace") for key, value in fields if key in (1, 2) and value]
                text = next((value for key, value in fields if key == 16), b"")
                try:
                    row["/".join(names)] = json.loads(text)
                except (ValueError, TypeError):
                    continue
    return _of_row(row)
