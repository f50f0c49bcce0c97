"""Which tensors of two checkpoints differ, and by how much; each may have any form."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emberward.checkpoint._boxes import whole_box
from emberward.checkpoint._foreign._bits import to_floats
from emberward.checkpoint._foreign._merge import Reading
from emberward.checkpoint._foreign._open import open_source
from emberward.checkpoint._foreign._read import Reader, read_tiles
from emberward.checkpoint._foreign._source import Form, Source
from emberward.checkpoint._foreign._stored import Stored
from emberward.checkpoint._reader import read_manifest
from emberward.findings import Cause, Certainty, Finding, Kind, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a tensor differs. `why` says it in words; the numbers are None when there is nothing to subtract.

    `first` is the index of the first element that differs, `largest` the largest absolute difference (inf or NaN too).
    """

    name: str
    why: str
    num_different: int | None = None
    num_elements: int | None = None
    largest: float | None = None
    first: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """The difference as one JSON object; a largest one that is no number is text."""
        largest = self.largest
        return {
            "name": self.name,
            "why": self.why,
            "num_different": self.num_different,
            "num_elements": self.num_elements,
            "largest": largest if largest is None or math.isfinite(largest) else str(largest),
            "first": None if self.first is None else list(self.first),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two checkpoints have in common. `num_by_digest` of the equal tensors were not read: their digests agree."""

    a: Path
    b: Path
    num_equal: int
    num_by_digest: int
    differences: tuple[Difference, ...]

    def to_json(self) -> dict[str, Any]:
        """The comparison as one JSON object."""
        return {
            "a": str(self.a),
            "b": str(self.b),
            "num_equal": self.num_equal,
            "num_by_digest": self.num_by_digest,
            "differences": [difference.to_json() for difference in self.differences],
        }

    def findings(self) -> tuple[Finding, ...]:
        """K115 for each tensor that differs."""
        return tuple(
            Finding(
                code="K115",
                severity=Severity.ERROR,
                kind=Kind.MISMATCH,
                cause=Cause.UNKNOWN,
                certainty=Certainty.PROVED,
                message=f"tensor {difference.name} differs: {difference.why}",
                site=str(self.b),
                next=f"emberward checkpoint show {self.b}",
            )
            for difference in self.differences
        )


def diff(a: Path, b: Path, *, reading: Reading) -> Comparison:
    """The tensors that the two checkpoints do not have in common, bit by bit. Blocks; memory: a few times 2 MiB.

    Two saves of ours are compared by their digests first, and only tensors whose digests differ are read. Raises what
    `open_source` does.
    """
    sources = open_source(a, reading), open_source(b, reading)
    settled = _equal_by_digest(*sources)
    differences, num_equal = list[Difference](), 0
    names = sorted({*sources[0].tensors, *sources[1].tensors})
    with Reader() as one, Reader() as other:
        for name in names:
            left, right = (source.tensors.get(name) for source in sources)
            if left is None or right is None:
                differences.append(Difference(name=name, why=f"only in {sources[right is not None].path}"))
                continue
            found = None if name in settled else compare(left, right, one, other)
            num_equal += found is None
            differences += [] if found is None else [found]
    for source in sources:
        source.evidence.finish()
    return Comparison(
        a=sources[0].path,
        b=sources[1].path,
        num_equal=num_equal,
        num_by_digest=len(settled),
        differences=tuple(differences),
    )


def _equal_by_digest(a: Source, b: Source) -> frozenset[str]:
    if (a.form, b.form) != (Form.EMBERWARD, Form.EMBERWARD):
        return frozenset()
    left, right = read_manifest(a.path).tensors, read_manifest(b.path).tensors
    return frozenset(
        name
        for name, entry in left.items()
        if name in right
        and (entry.dtype, entry.shape, entry.digest) == (right[name].dtype, right[name].shape, right[name].digest)
    )


def compare(a: Stored, b: Stored, one: Reader, other: Reader) -> Difference | None:
    """How two tensors differ; None when they have the same type, shape and bits. Reads both, a tile at a time."""
    if a.shape != b.shape:
        return Difference(name=a.name, why=f"shape {a.shape} and {b.shape}")
    if a.dtype.item_bytes != b.dtype.item_bytes:
        return Difference(name=a.name, why=f"type {a.dtype} and {b.dtype}")
    num_different, largest, first = 0, 0.0, None
    box = whole_box(a.shape)
    for (tile, left), (_, right) in zip(read_tiles(one, a, box), read_tiles(other, b, box), strict=True):
        unequal = left != right
        if not unequal.any():
            continue
        if first is None:
            index = np.argwhere(unequal)[0] if unequal.ndim else ()
            first = tuple(int(i) + start for i, (start, _) in zip(index, tile, strict=True))
        num_different += int(unequal.sum())
        with np.errstate(invalid="ignore"):
            gap = np.abs(to_floats(left[unequal], a.dtype) - to_floats(right[unequal], b.dtype))
        largest = float(np.maximum(largest, gap.max()))  # NaN wins: maximum hands it on
    if num_different == 0:
        return None if a.dtype is b.dtype else Difference(name=a.name, why=f"type {a.dtype} and {b.dtype}")
    share = f"{num_different} of {a.num_elements} elements, by up to {largest:.3g}, the first at {list(first or ())}"
    return Difference(
        name=a.name,
        why=share,
        num_different=num_different,
        num_elements=a.num_elements,
        largest=largest,
        first=first,
    )
