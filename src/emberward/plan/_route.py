"""Routes between layouts as values: moves, steps, what they cost, how they are logged, who gives what to whom.

See [Note: boxing moves] in _boxing.py for what each move does and costs.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from emberward.layout import Axis, Box, Layout, Mesh, local_box


class Move(StrEnum):
    """One primitive of a route. See [Note: boxing moves]."""

    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    SLICE = "slice"
    ZERO_PAD = "zero_pad"
    SCALE = "scale"
    TRANSFER = "transfer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A tensor's layout and the mesh that holds it."""

    mesh: Mesh
    layout: Layout

    def __str__(self) -> str:
        return "(" + ", ".join(str(self.layout.on(axis)) for axis, _ in self.mesh.axes) + ")"

    @property
    def placement_text(self) -> str:
        """``{0 1 2 3 (2 2)}``: ranks, then the mesh's shape."""
        shape = " ".join(str(size) for _, size in self.mesh.axes)
        return "{" + " ".join(map(str, self.mesh.ranks)) + f" ({shape})" + "}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxingStep:
    """One move: what it does, along which axis (None between meshes), and the bytes all ranks receive by it."""

    move: Move
    axis: Axis | None
    before: Placed
    after: Placed
    received_bytes: int

    @property
    def builder(self) -> str:
        """The move by the placements it changes, e.g. ``all_gather S(0) to B on dp_shard``."""
        if self.axis is None:
            return f"{self.move.value} {self.before} to {self.after}"
        change = f"{self.before.layout.on(self.axis)} to {self.after.layout.on(self.axis)}"
        return f"{self.move.value} {change} on {self.axis.value}"

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The groups of ranks that communicate; all ranks of both meshes for a transfer; none for a free move."""
        if self.move in (Move.SLICE, Move.ZERO_PAD, Move.SCALE):
            return ()
        if self.axis is None:
            return (tuple(sorted({*self.before.mesh.ranks, *self.after.mesh.ranks})),)
        return tuple(self.before.mesh.groups(self.axis))


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Steps that lead from `source` to `target` for a tensor of `shape`; no steps when nothing has to change."""

    shape: tuple[int, ...]
    item_bytes: int
    source: Placed
    target: Placed
    steps: tuple[BoxingStep, ...]

    @property
    def received_bytes(self) -> int:
        """Bytes that all ranks together receive."""
        return sum(step.received_bytes for step in self.steps)

    @property
    def cross_bytes(self) -> int:
        """The part of `received_bytes` that goes from mesh to mesh."""
        return sum(step.received_bytes for step in self.steps if step.move is Move.TRANSFER)

    def log_lines(self) -> tuple[str, ...]:
        """Route, logical shape, layouts and placements, as OneFlow's eager_boxing_logger.cpp writes them."""
        places = [self.source, *(step.after for step in self.steps)]
        shape = ",".join(map(str, self.shape))
        return (
            "Boxing route: " + (" -> ".join(step.builder for step in self.steps) or "identity"),
            f"Logical shape: ({shape})",
            "Altered state of sbp: " + " -> ".join(map(str, places)),
            "Altered state of placement: " + " -> ".join(place.placement_text for place in places),
        )

    def csv_row(self, *, source_op: str, target_op: str, tensor: str, dtype: str, comment: str = "-") -> str:
        """One row of the boxing log, columns as in CSV_HEADER (OneFlow's boxing_logger.cpp)."""
        shape = "(" + " ".join(map(str, self.shape)) + ")"
        builder = " -> ".join(step.builder for step in self.steps) or "identity"
        cells = (
            source_op,
            target_op,
            self.source.placement_text,
            self.target.placement_text,
            f'"{self.source}"',
            f'"{self.target}"',
            tensor,
            dtype,
            shape,
            f'"{builder}"',
            str(self.received_bytes),
            f'"{comment}"' if "," in comment else comment,
        )
        return ",".join(cells)


CSV_HEADER = (
    "src_op_name,dst_op_name,src_parallel_desc,dst_parallel_desc,src_nd_sbp,dst_nd_sbp,lbi,dtype,shape,builder,"
    "received_bytes,comment"
)


def volume(box: Box) -> int:
    """Number of elements in the box."""
    return math.prod(stop - start for start, stop in box)


def overlap(left: Box, right: Box) -> Box:
    """The part that both boxes hold; a box without elements when there is none."""
    return tuple((max(a, c), max(max(a, c), min(b, d))) for (a, b), (c, d) in zip(left, right, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A box that `source` gives to `destination` in a transfer; equal ranks copy to themselves."""

    source: int
    destination: int
    box: Box


def transfer_pieces(step: BoxingStep, shape: tuple[int, ...]) -> tuple[Piece, ...]:
    """Who gives which box to whom in a transfer: each rank of the target gets its box exactly once.

    A rank takes what it holds from itself; other boxes come from the replica that has given least so far.
    """
    before, after = step.before, step.after
    held = {rank: local_box(shape, before.layout, before.mesh, rank) for rank in before.mesh.ranks}
    given = dict.fromkeys(held, 0)
    pieces: list[Piece] = []
    for rank in after.mesh.ranks:
        wanted = local_box(shape, after.layout, after.mesh, rank)
        replicas: dict[Box, list[int]] = {}
        for source, box in held.items():
            part = overlap(box, wanted)
            if volume(part):
                replicas.setdefault(part, []).append(source)
        own = overlap(held[rank], wanted) if rank in held else None
        covered: list[Box] = []
        for part, sources in sorted(replicas.items(), key=lambda item: item[0] != own):
            if any(volume(overlap(part, done)) for done in covered):
                continue
            source = rank if rank in sources else min(sources, key=lambda s: (given[s], s))
            given[source] += volume(part) if source != rank else 0
            covered.append(part)
            pieces.append(Piece(source=source, destination=rank, box=part))
    return tuple(pieces)
