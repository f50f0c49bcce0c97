"""How each axis of a mesh holds a tensor: split, broadcast or partial.

OneFlow's SBP (Yuan et al. 2021, section 3.1); DTensor's Shard, Replicate and Partial.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from emberward.layout._mesh import Axis, Mesh


@dataclass(frozen=True, slots=True)
class Split:
    """Each rank along the axis holds one chunk of tensor dim `dim`, counted from 0. See `chunk`."""

    dim: int

    def __post_init__(self) -> None:
        if self.dim < 0:
            raise ValueError(f"Split counts dims from 0, found {self.dim}")

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Each rank along the axis holds the whole value."""

    def __str__(self) -> str:
        return "B"


@dataclass(frozen=True, slots=True)
class Partial:
    """The value is the reduction (sum, avg, max, min) of what the ranks along the axis hold."""

    reduce_op: str = "sum"

    def __post_init__(self) -> None:
        if self.reduce_op not in ("sum", "avg", "max", "min"):
            raise ValueError(f"Partial reduces by sum, avg, max or min, found {self.reduce_op!r}")

    def __str__(self) -> str:
        return "P" if self.reduce_op == "sum" else f"P({self.reduce_op})"


Placement = Split | Broadcast | Partial
Box = tuple[tuple[int, int], ...]
"""Half-open ranges [start, stop) of a tensor, one for each dim."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Placement on each axis; axes that are left out broadcast.

    Where two axes split one dim, the axis that comes first in `placements` cuts first and the next cuts its chunks.
    """

    placements: Mapping[Axis, Placement]

    def __post_init__(self) -> None:
        object.__setattr__(self, "placements", MappingProxyType(dict(self.placements)))

    def __hash__(self) -> int:
        return hash(tuple(self.placements.items()))

    def __reduce__(self) -> tuple[type["Layout"], tuple[dict[Axis, Placement]]]:
        return Layout, (dict(self.placements),)

    def on(self, axis: Axis) -> Placement:
        """The placement along `axis`."""
        return self.placements.get(axis, Broadcast())

    def __str__(self) -> str:
        return "(" + ", ".join(f"{axis.value}={place}" for axis, place in self.placements.items()) + ")"


def chunk(length: int, num_chunks: int, index: int) -> tuple[int, int]:
    """Range [start, stop) of chunk `index`: all chunks have ceil(length / num_chunks) items but the last ones.

    Same rule as torch.chunk padded with empty chunks, hence as DTensor's Shard (torch/distributed/tensor, 2.13).
    """
    size = -(-length // num_chunks)
    start = min(index * size, length)
    return start, min(start + size, length)


def local_box(shape: tuple[int, ...], layout: Layout, mesh: Mesh, rank: int) -> Box:
    """The part of a tensor of `shape` that `rank` holds; whole along axes that broadcast or hold partials.

    Raises ValueError when the layout splits a dim that the tensor does not have.
    """
    box = [(0, length) for length in shape]
    own = mesh.coordinates(rank)
    for axis, placement in layout.placements.items():
        if not isinstance(placement, Split) or axis not in own:
            continue
        if placement.dim >= len(shape):
            raise ValueError(f"layout {layout} splits dim {placement.dim} of a tensor of shape {shape}")
        start, stop = box[placement.dim]
        low, high = chunk(stop - start, mesh.axis_size(axis), own[axis])
        box[placement.dim] = (start + low, start + high)
    return tuple(box)


def local_shape(shape: tuple[int, ...], layout: Layout, mesh: Mesh, rank: int) -> tuple[int, ...]:
    """Shape of what `rank` holds of a tensor of `shape`."""
    return tuple(stop - start for start, stop in local_box(shape, layout, mesh, rank))
