"""Executes boxing routes on numpy arrays, one for each rank: the referee of the planner."""

import itertools
import math

import numpy as np

from emberward.layout import Broadcast, Layout, Mesh, Partial, local_box
from emberward.plan import BoxingStep, Move, Placed, Route, transfer_pieces


def crop(value: np.ndarray, box, origin=None) -> np.ndarray:
    """The box of a value whose own box starts at `origin`."""
    origin = origin or tuple((0, 0) for _ in box)
    return value[tuple(slice(a - o[0], b - o[0]) for (a, b), o in zip(box, origin, strict=True))]


def box_of(placed: Placed, shape, rank):
    return local_box(shape, placed.layout, placed.mesh, rank)


def _partial_axes(placed: Placed):
    return [axis for axis, _ in placed.mesh.axes if isinstance(placed.layout.on(axis), Partial)]


def _families(placed: Placed):
    """Ranks that differ only along partial axes."""
    axes = _partial_axes(placed)
    return list(placed.mesh.groups(*axes)) if axes else [(rank,) for rank in placed.mesh.ranks]


def scatter(value: np.ndarray, placed: Placed, rng: np.random.Generator) -> dict[int, np.ndarray]:
    """What each rank holds of `value`; partial shares are random and reduce to it exactly."""
    held = {rank: crop(value, box_of(placed, value.shape, rank)).copy() for rank in placed.mesh.ranks}
    ops = [placed.layout.on(axis).reduce_op for axis in _partial_axes(placed)]
    scale = math.prod(
        placed.mesh.axis_size(axis) for axis in _partial_axes(placed) if placed.layout.on(axis).reduce_op == "avg"
    )
    for family in _families(placed):
        first, *others = family
        if not ops:
            continue
        if ops[0] in ("sum", "avg"):
            held[first] *= scale
        for rank in others:
            noise = rng.integers(1, 9, held[rank].shape).astype(float)
            if ops[0] == "max":
                held[rank] -= noise
            elif ops[0] == "min":
                held[rank] += noise
            else:
                held[rank] = noise
                held[first] -= noise
    return held


def check_holds(held: dict[int, np.ndarray], value: np.ndarray, placed: Placed) -> None:
    """Asserts that the shares are those of `value`."""
    assert sorted(held) == list(placed.mesh.ranks)
    for family in _families(placed):
        shares = [held[rank] for rank in family]
        for axis in reversed(_partial_axes(placed)):
            size = placed.mesh.axis_size(axis)
            op = placed.layout.on(axis).reduce_op
            shares = [reduce_by(op, shares[i : i + size]) for i in range(0, len(shares), size)]
        assert len(shares) == 1
        np.testing.assert_array_equal(shares[0], crop(value, box_of(placed, value.shape, family[0])))


def reduce_by(op: str, shares) -> np.ndarray:
    stacked = np.stack(shares)
    match op:
        case "sum":
            return stacked.sum(0)
        case "avg":
            return stacked.sum(0) / len(shares)
        case "max":
            return stacked.max(0)
        case _:
            return stacked.min(0)


def run(route: Route, held: dict[int, np.ndarray]) -> tuple[dict[int, np.ndarray], int]:
    """(what each rank holds at the end, items received by exact moves that can be counted)."""
    received = 0
    for step in route.steps:
        held, count = run_step(step, route.shape, held)
        received += count
    return held, received


def run_step(step: BoxingStep, shape, held):
    before, after = step.before, step.after
    if step.move is Move.TRANSFER:
        return _transfer(step, shape, held)
    if step.axis is None:
        assert step.move is Move.ZERO_PAD
        whole = next(iter(held.values()))
        return {rank: held.get(rank, np.zeros_like(whole)) for rank in after.mesh.ranks}, 0
    found, count = {}, 0
    size = before.mesh.axis_size(step.axis)
    for group in before.mesh.groups(step.axis):
        for place, rank in enumerate(group):
            own, new = box_of(before, shape, rank), box_of(after, shape, rank)
            match step.move:
                case Move.SLICE:
                    found[rank] = crop(held[rank], new, own).copy()
                case Move.SCALE:
                    to_avg = after.layout.on(step.axis).reduce_op == "avg"
                    found[rank] = held[rank] * size if to_avg else held[rank] / size
                case Move.ALL_REDUCE | Move.REDUCE_SCATTER:
                    op = before.layout.on(step.axis).reduce_op
                    found[rank] = crop(reduce_by(op, [held[other] for other in group]), new, own).copy()
                case Move.ZERO_PAD:
                    found[rank] = _padded(step, held[rank], own, new, place, size)
                case Move.ALL_GATHER | Move.ALL_TO_ALL:
                    out = np.full([b - a for a, b in new], np.nan)
                    for other in group:
                        count += _paste(out, new, held[other], box_of(before, shape, other), other != rank)
                    assert not np.isnan(out).any()
                    found[rank] = out
    return found, count


def _padded(step: BoxingStep, value, own, new, place: int, size: int):
    op = step.after.layout.on(step.axis).reduce_op
    if isinstance(step.before.layout.on(step.axis), Broadcast):
        return value.copy() if op != "sum" or place == 0 else np.zeros_like(value)
    out = np.zeros([b - a for a, b in new])
    crop(out, own, new)[...] = value * (size if op == "avg" else 1)
    return out


def _paste(out, box, value, value_box, is_foreign: bool) -> int:
    part = tuple((max(a, c), max(max(a, c), min(b, d))) for (a, b), (c, d) in zip(box, value_box, strict=True))
    target = crop(out, part, box)
    target[...] = crop(value, part, value_box)
    return target.size if is_foreign else 0


def _transfer(step: BoxingStep, shape, held):
    found = {
        rank: np.full([b - a for a, b in box_of(step.after, shape, rank)], np.nan) for rank in step.after.mesh.ranks
    }
    count = 0
    for piece in transfer_pieces(step, shape):
        value = crop(held[piece.source], piece.box, box_of(step.before, shape, piece.source))
        crop(found[piece.destination], piece.box, box_of(step.after, shape, piece.destination))[...] = value
        count += value.size if piece.source != piece.destination else 0
    assert not any(np.isnan(array).any() for array in found.values())
    return found, count


def layouts(mesh: Mesh, num_dims: int, *, partials=("sum",)) -> list[Layout]:
    """Every layout of the mesh, also those whose inner axis cuts a dim first."""
    from emberward.layout import Split

    choices = [Broadcast(), *(Split(d) for d in range(num_dims)), *(Partial(op) for op in partials)]
    axes = [axis for axis, _ in mesh.axes]
    found = []
    for places in itertools.product(choices, repeat=len(axes)):
        pairs = dict(zip(axes, places, strict=True))
        found.append(Layout(pairs))
        if len(axes) == 2 and places[0] == places[1] and isinstance(places[0], Split):
            found.append(Layout({axes[1]: places[1], axes[0]: places[0]}))
    return found
