"""What a foreign checkpoint holds, tensor by tensor, and what became of each: imported, or left out and why."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from emberward.checkpoint._foreign._stored import Stored
from emberward.checkpoint._foreign._torch_file import TorchFile, tensors_in


class Held(StrEnum):
    """The kinds of things that a checkpoint holds."""

    WEIGHT = "trained weights"
    MOMENT = "moments"
    FROZEN = "frozen weights"
    BUFFER = "buffers"
    TENSOR = "tensors"
    VALUE = "values"
    TIED = "tied names"
    COPY = "copies to compute with"
    REPLICA = "replicas"
    STATE = "states of one rank"
    PADDING = "padding"
    FILE = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A thing under the name that the source gives it. `ours` are its names here; `why` says why there is none.

    `places` are where a tensor lies that was left out.
    """

    name: str
    held: Held
    ours: tuple[str, ...] = ()
    why: str | None = None
    places: tuple[Stored, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The item as one JSON object."""
        return {"name": self.name, "held": self.held.value, "imported_as": list(self.ours), "left_out": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: how many there are of a kind, how many were imported, and why the others were not."""

    held: Held
    found: int
    imported: int
    why: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The row as one JSON object."""
        left_out = self.found - self.imported
        return {
            "held": self.held.value,
            "found": self.found,
            "imported": self.imported,
            "left_out": left_out,
            "why": list(self.why),
        }


def rows_of(items: Sequence[Item]) -> tuple[Row, ...]:
    """The table: a row for each kind that there is."""
    rows = []
    for held in Held:
        own = [item for item in items if item.held is held]
        why = Counter(item.why for item in own if item.why is not None)
        if own:
            imported = sum(bool(item.ours) for item in own)
            rows.append(Row(held=held, found=len(own), imported=imported, why=tuple(why)))
    return tuple(rows)


def unread_files(folder: Path, read: Collection[Path]) -> tuple[Item, ...]:
    """Every file of the folder that was not read."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    why = "the form does not know this file"
    return tuple(Item(name=name, held=Held.FILE, why=why) for name in names if folder / name not in read)


def require_accounted(files: Iterable[TorchFile], tensors: Mapping[str, Stored], items: Sequence[Item]) -> None:
    """Raises RuntimeError, a bug of ours, when a tensor of a file is neither imported nor named as left out.

    Counted on the files themselves, not by what the reading of a form believes to be there: every tensor that a file's
    pickle names must share bytes with one that is imported or left out by name.
    """
    places: dict[Path, list[tuple[int, int]]] = {}
    left = (place for item in items if item.why is not None for place in item.places)
    for stored in (*tensors.values(), *left):
        for begin, end, path in _ranges(stored):
            places.setdefault(path, []).append((begin, end))
    for path in places:
        places[path] = _joined(places[path])
    for file in files:
        known = places.get(file.path, [])
        for keys, ref in tensors_in(file.tree):
            for begin, end, _ in _ranges(file.stored(ref, "/".join(map(str, keys)))):
                if not _meets(known, begin, end):
                    name = "/".join(map(str, keys))
                    raise RuntimeError(f"tensor {name} of {file.path} was neither imported nor named as left out")
    nameless = [item.name for item in items if not item.ours and not item.why]
    if nameless:
        raise RuntimeError(f"{nameless[0]} was left out without a reason")


def _ranges(stored: Stored) -> Iterable[tuple[int, int, Path]]:
    for region in stored.regions:
        lengths = [high - low for low, high in region.box]
        reach = 1 + sum((n - 1) * stride for n, stride in zip(lengths, region.strides, strict=True))
        if isinstance(region.where, Path):
            yield region.offset, region.offset + reach * stored.dtype.item_bytes, region.where


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges in order, those that overlap or touch as one."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _meets(ranges: Sequence[tuple[int, int]], begin: int, end: int) -> bool:
    low, high = 0, len(ranges)
    while low < high:
        middle = (low + high) // 2
        if ranges[middle][1] <= begin:
            low = middle + 1
        else:
            high = middle
    return low < len(ranges) and ranges[low][0] < end
