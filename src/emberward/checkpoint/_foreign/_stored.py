"""Logical tensors that lie in files of any format: which bytes hold which elements, before a byte is read.

[Note: stored tensors]
Every format is brought down to one form: a tensor is boxes (regions), each a strided block of some file. A flat
partition, a fused matrix, a slice of a tensor-parallel rank and a piece of one of our own saves differ only in their
regions. Cutting, joining and renaming are sums on boxes; bytes move once, from the file that has them to the file that
is written, a few megabytes at a time.
"""

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from emberward.checkpoint._boxes import box_shape, flat_boxes, intersect, relative_box, shifted, volume, whole_box
from emberward.checkpoint._foreign._evidence import Record
from emberward.checkpoint._format import DType, Piece
from emberward.layout import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The checksums under which a region lies: it is a part of this piece of one of our saves."""

    checkpoint: Path
    piece: Piece
    piece_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Where a file holds the elements of a region once more, in a number type of its own: rounded, they are equal."""

    dtype: DType
    where: Path
    offset: int
    strides: tuple[int, ...]
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """The elements of `box`: element (i, j, ...) of it lies `offset` + item size * (i, j, ...) . `strides` into
    `where`.

    `strides` count elements and are not negative. `where` is a file, or the bytes themselves. Bytes that carry a
    `proof` are compared with its checksums when they are read; those of a `record` count towards its checksum; and
    elements with a `twin` are compared with it.
    """

    box: Box
    where: Path | bytes
    offset: int
    strides: tuple[int, ...]
    proof: Proof | None = None
    record: Record | None = None
    twin: Twin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A logical tensor in files. Its regions do not overlap; elements under none of them are zero (padding)."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    regions: tuple[Region, ...]

    @property
    def num_elements(self) -> int:
        """Elements of the whole tensor."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.num_elements * self.dtype.item_bytes

    @property
    def num_placed(self) -> int:
        """Elements that some region holds."""
        return sum(volume(region.box) for region in self.regions)

    def named(self, name: str) -> "Stored":
        """The same tensor under another name."""
        return replace(self, name=name)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous array of `shape`."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def whole(name: str, dtype: DType, shape: tuple[int, ...], where: Path | bytes, offset: int = 0) -> Stored:
    """A tensor that lies in one contiguous block."""
    region = Region(box=whole_box(shape), where=where, offset=offset, strides=row_major(shape))
    return Stored(name=name, dtype=dtype, shape=shape, regions=(region,) if math.prod(shape) > 0 else ())


def cut(stored: Stored, box: Box) -> Stored:
    """The part `box` as a tensor of its own. Pure; no byte is read."""
    regions = []
    for region in stored.regions:
        common = intersect(region.box, box)
        if common is not None:
            steps = [start - low for (start, _), (low, _) in zip(common, region.box, strict=True)]
            moved = _moved(region, steps, stored.dtype)
            regions.append(replace(moved, box=relative_box(common, box)))
    return replace(stored, shape=box_shape(box), regions=tuple(regions))


def _moved(region: Region, steps: Sequence[int], dtype: DType) -> Region:
    """The region with its first element `steps` further along each dim, in its file and in its twin's."""
    ahead = sum(map(operator.mul, steps, region.strides))
    twin = region.twin
    if twin is not None:
        twin_ahead = sum(map(operator.mul, steps, twin.strides))
        twin = replace(twin, offset=twin.offset + twin_ahead * twin.dtype.item_bytes)
    return replace(region, offset=region.offset + ahead * dtype.item_bytes, twin=twin)


def with_twin(stored: Stored, copy: Stored) -> Stored:
    """The tensor with each region beside the part of `copy`, a tensor in one region, that repeats it. Pure."""
    regions = []
    for region in stored.regions:
        beside = cut(copy, region.box).regions[0]
        assert isinstance(beside.where, Path) and beside.record is not None, "a tensor of a torch file"
        twin = Twin(
            dtype=copy.dtype, where=beside.where, offset=beside.offset, strides=beside.strides, record=beside.record
        )
        regions.append(replace(region, twin=twin))
    return replace(stored, regions=tuple(regions))


def join(name: str, shape: tuple[int, ...], parts: Iterable[tuple[tuple[int, ...], Stored]]) -> Stored:
    """A tensor of `shape` whose parts lie at the given low corners; all have one dtype. Pure."""
    dtype, regions = None, []
    for corner, part in parts:
        assert dtype in (None, part.dtype), f"{name} is made of {dtype} and {part.dtype}"
        dtype = part.dtype
        origin = tuple((low, low) for low in corner)
        regions += [replace(region, box=shifted(region.box, origin)) for region in part.regions]
    assert dtype is not None, f"{name} has no part"
    return Stored(name=name, dtype=dtype, shape=shape, regions=tuple(regions))


def concatenate(name: str, parts: Sequence[Stored], dim: int) -> Stored:
    """The tensors one after the other along `dim`. Pure."""
    at, placed = 0, []
    for part in parts:
        placed.append((tuple(at if d == dim else 0 for d in range(len(part.shape))), part))
        at += part.shape[dim]
    shape = tuple(at if d == dim else length for d, length in enumerate(parts[0].shape))
    return join(name, shape, placed)


def from_flat(flat: Stored, start: int, name: str, shape: tuple[int, ...]) -> Stored:
    """The tensor of `shape` whose row-major elements are those of the one-dimensional `flat` from `start` on. Pure.

    Every region of `flat` must be contiguous. A range of a flat array is at most 2 * dims - 1 boxes of the tensor.
    """
    stop, item_bytes, regions = start + math.prod(shape), flat.dtype.item_bytes, []
    for region in flat.regions:
        low, high = max(start, region.box[0][0]), min(stop, region.box[0][1])
        offset = region.offset + (low - region.box[0][0]) * item_bytes
        for box in flat_boxes(shape, low - start, high - start):
            regions.append(replace(region, box=box, offset=offset, strides=row_major(box_shape(box))))
            offset += volume(box) * item_bytes
    return Stored(name=name, dtype=flat.dtype, shape=shape, regions=tuple(regions))


def flattened(stored: Stored) -> Stored:
    """The tensor's elements in row-major order, as a tensor with one dim. Pure; the inverse of `from_flat`.

    A region becomes as many as it has rows that do not follow on one another, in the tensor or in the file.
    """
    steps, regions = row_major(stored.shape), []
    for region in stored.regions:
        lengths = box_shape(region.box)
        inner = max(0, len(lengths) - 1)  # the dims from `inner` on lie end to end in both
        while inner > 0 and lengths[inner] == stored.shape[inner] and _all_follow(region, lengths, inner):
            inner -= 1
        length = math.prod(lengths[inner:])
        for outer in itertools.product(*(range(n) for n in lengths[:inner])):
            corner = [
                start + at for (start, _), at in zip(region.box, (*outer, *(0 for _ in lengths[inner:])), strict=True)
            ]
            begin = sum(at * step for at, step in zip(corner, steps, strict=True))
            moved = _moved(region, (*outer, *(0 for _ in lengths[inner:])), stored.dtype)
            twin = None if moved.twin is None else replace(moved.twin, strides=moved.twin.strides[-1:] or (1,))
            stride = region.strides[-1:] or (1,)
            regions.append(replace(moved, box=((begin, begin + length),), strides=stride, twin=twin))
    return replace(stored, shape=(stored.num_elements,), regions=tuple(regions))


def _all_follow(region: Region, lengths: Sequence[int], dim: int) -> bool:
    return _follows(region.strides, lengths, dim) and (
        region.twin is None or _follows(region.twin.strides, lengths, dim)
    )


def _follows(strides: Sequence[int], lengths: Sequence[int], dim: int) -> bool:
    """Whether rows along `dim` follow on one another in the file."""
    return strides[dim - 1] == strides[dim] * lengths[dim]
