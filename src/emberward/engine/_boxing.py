"""Runs a boxing route on real tensors: what torch's own redistribute refuses or silently leaves undone.

torch 2.13 refuses any change to Partial and any change between meshes with another placement, and between meshes with
the same placement it moves nothing and says nothing (measured). Here each step of the route, a value from
`emberward.plan`, is one collective or one round of sends and receives.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

import torch
import torch.distributed as dist
from torch import Tensor

from emberward.layout import Box, Broadcast, Partial, local_box
from emberward.plan import BoxingStep, Move, Placed, Route, transfer_pieces

GroupOf = Callable[[tuple[int, ...]], dist.ProcessGroup]
_REDUCE = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}


def groups_of_route(route: Route) -> list[tuple[int, ...]]:
    """The groups of ranks that `run_route` needs, each once, in an order that is the same on every rank."""
    return sorted({group for step in route.steps for group in step.groups if len(group) > 1})


def run_route(
    route: Route, held: Tensor | None, rank: int, group_of: GroupOf, *, like: Tensor | None = None
) -> Tensor | None:
    """What `rank` holds of the tensor at the end of the route; None on a rank outside the target mesh.

    `held` is what it holds at the start, None outside the source mesh. All ranks of both meshes must call; blocks.
    `group_of` gives the process group over some ranks, made before by all of them (`groups_of_route`). `like` has the
    type and device of the tensor; None: float32 on the CPU.
    """
    like = torch.empty(0) if like is None else like
    for step in route.steps:
        held = _run_step(step, route.shape, held, rank, group_of, like)
    return held


def _box(placed: Placed, shape: tuple[int, ...], rank: int) -> Box:
    return local_box(shape, placed.layout, placed.mesh, rank)


def _crop(value: Tensor, box: Box, origin: Box) -> Tensor:
    """The view of `value`, whose own box is `origin`, that shows `box`."""
    return value[tuple(slice(a - start, b - start) for (a, b), (start, _) in zip(box, origin, strict=True))]


def _overlap(left: Box, right: Box) -> Box:
    return tuple((max(a, c), max(max(a, c), min(b, d))) for (a, b), (c, d) in zip(left, right, strict=True))


def _empty(box: Box, like: Tensor) -> Tensor:
    return like.new_zeros([stop - start for start, stop in box])


def _run_step(
    step: BoxingStep, shape: tuple[int, ...], held: Tensor | None, rank: int, group_of: GroupOf, like: Tensor
) -> Tensor | None:
    if step.move is Move.TRANSFER:
        return _transfer(step, shape, held, rank, group_of, like)
    if step.axis is None:
        return held if held is not None or rank not in step.after.mesh.ranks else like.new_zeros(shape)
    if held is None or rank not in step.before.mesh.ranks:
        return None
    own, new = _box(step.before, shape, rank), _box(step.after, shape, rank)
    members = step.before.mesh.group(rank, step.axis)
    match step.move:
        case Move.SLICE:
            return _crop(held, new, own).clone()
        case Move.SCALE:
            after = step.after.layout.on(step.axis)
            is_to_avg = isinstance(after, Partial) and after.reduce_op == "avg"
            return held * len(members) if is_to_avg else held / len(members)
        case Move.ZERO_PAD:
            return _zero_pad(step, held, own, new, members.index(rank), len(members))
        case Move.ALL_REDUCE:
            return _reduced(step, held, members, group_of)
        case Move.REDUCE_SCATTER:
            boxes = [_box(step.after, shape, member) for member in members]
            return _reduce_scatter(step, held, own, boxes, members.index(rank), members, group_of)
        case Move.ALL_GATHER | Move.ALL_TO_ALL:
            olds = [_box(step.before, shape, member) for member in members]
            news = [_box(step.after, shape, member) for member in members]
            return _exchange(held, olds, news, members.index(rank), members, group_of)
        case _:
            assert_never(step.move)


def _zero_pad(step: BoxingStep, held: Tensor, own: Box, new: Box, place: int, size: int) -> Tensor:
    assert step.axis is not None
    after = step.after.layout.on(step.axis)
    assert isinstance(after, Partial)
    if isinstance(step.before.layout.on(step.axis), Broadcast):
        # The mean, the greatest and the least of equal values are the value; of a sum one rank holds it all.
        return held.clone() if after.reduce_op != "sum" or place == 0 else torch.zeros_like(held)
    out = _empty(new, held)
    _crop(out, own, new).copy_(held * (size if after.reduce_op == "avg" else 1))
    return out


def _reduce_op(step: BoxingStep) -> str:
    assert step.axis is not None
    before = step.before.layout.on(step.axis)
    assert isinstance(before, Partial)
    return before.reduce_op


def _reduced(step: BoxingStep, held: Tensor, members: tuple[int, ...], group_of: GroupOf) -> Tensor:
    op = _reduce_op(step)
    out = held.contiguous().clone()
    dist.all_reduce(out, op=_REDUCE[op], group=group_of(members))
    return out / len(members) if op == "avg" else out


def _reduce_scatter(
    step: BoxingStep,
    held: Tensor,
    own: Box,
    boxes: Sequence[Box],
    place: int,
    members: tuple[int, ...],
    group_of: GroupOf,
) -> Tensor:
    """Chunks may be uneven: each is padded to the longest."""
    op = _reduce_op(step)
    longest = max(_numel(box) for box in boxes)
    parts = held.new_zeros((len(members), longest))
    for row, box in enumerate(boxes):
        parts[row, : _numel(box)] = _crop(held, box, own).reshape(-1)
    mine = held.new_zeros(longest)
    dist.reduce_scatter(mine, list(parts.unbind(0)), op=_REDUCE[op], group=group_of(members))
    out = mine[: _numel(boxes[place])].view([stop - start for start, stop in boxes[place]])
    return out / len(members) if op == "avg" else out.clone()


def _numel(box: Box) -> int:
    return math.prod(stop - start for start, stop in box)


def _exchange(
    held: Tensor, olds: Sequence[Box], news: Sequence[Box], place: int, members: tuple[int, ...], group_of: GroupOf
) -> Tensor:
    """Each member gives each other what the other shall hold and it holds: one all-to-all of uneven parts."""
    gives = [_overlap(olds[place], new) for new in news]
    takes = [_overlap(old, news[place]) for old in olds]
    sent = torch.cat([_crop(held, box, olds[place]).reshape(-1) if _numel(box) else held.new_zeros(0) for box in gives])
    received = held.new_zeros(sum(map(_numel, takes)))
    dist.all_to_all_single(
        received, sent, [_numel(box) for box in takes], [_numel(box) for box in gives], group=group_of(members)
    )
    out, offset = _empty(news[place], held), 0
    for box in takes:
        size = _numel(box)
        if size:
            _crop(out, box, news[place]).copy_(
                received[offset : offset + size].view([stop - start for start, stop in box])
            )
        offset += size
    return out


def _transfer(
    step: BoxingStep, shape: tuple[int, ...], held: Tensor | None, rank: int, group_of: GroupOf, like: Tensor
) -> Tensor | None:
    """All sends and receives of a transfer are posted before any is waited for: their order cannot matter."""
    if rank not in step.groups[0]:
        return held
    group = group_of(step.groups[0]) if len(step.groups[0]) > 1 else None
    is_target = rank in step.after.mesh.ranks
    new = _box(step.after, shape, rank) if is_target else None
    out = _empty(new, like) if new is not None else None
    works: list[dist.Work | None] = []
    kept: list[tuple[Box, Tensor]] = []
    sent: list[Tensor] = []
    for number, piece in enumerate(transfer_pieces(step, shape)):
        if piece.source == rank:
            assert held is not None
            part = _crop(held, piece.box, _box(step.before, shape, rank)).contiguous()
            if piece.destination == rank:
                kept.append((piece.box, part))
            else:
                sent.append(part)
                works.append(dist.isend(part, piece.destination, group=group, tag=number))
        elif piece.destination == rank:
            buffer = _empty(piece.box, like)
            kept.append((piece.box, buffer))
            works.append(dist.irecv(buffer, piece.source, group=group, tag=number))
    _wait_all(works)
    for box, part in kept:
        assert out is not None and new is not None
        _crop(out, box, new).copy_(part)
    return out


def _wait_all(works: Iterable[dist.Work | None]) -> None:
    for work in works:
        assert work is not None, "this rank is not in the group of its transfer"
        work.wait()
