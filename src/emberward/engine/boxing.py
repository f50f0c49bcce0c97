"""The route planner for your own tensors: the cheapest way from one layout to another, run on torch's process groups.

    from emberward import boxing

See docs/boxing.md. Needs torch.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from emberward.engine._boxing import groups_of_route, run_route
from emberward.layout import Axis, Broadcast, Layout, Mesh, Partial, Split, local_shape
from emberward.plan import Placed, Route, find_route

__all__ = ["Axis", "Boxing", "Broadcast", "Layout", "Mesh", "Partial", "Placed", "Route", "Split", "find_route"]


class Boxing:
    """A change of layout that this process can make again and again: its `route`, and the process groups it needs.

    `source` and `target` say which ranks hold which parts of a tensor of `shape` before and after. `gradient` is how
    the gradient of the result lies on the target's mesh. None: as the result does, and whole where that is partial;
    ``Partial("sum")`` on an axis whose ranks use their copies for different shares of the loss. Every rank of the
    default group must make the same ones in the same order: making one creates process groups and blocks. Raises
    ValueError when a layout cannot hold the shape.
    """

    def __init__(
        self,
        source: Placed,
        target: Placed,
        *,
        shape: tuple[int, ...],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        gradient: Layout | None = None,
    ) -> None:
        self.source, self.target, self.shape = source, target, shape
        self._like = torch.empty(0, dtype=dtype, device=device)
        item_bytes = self._like.element_size()
        self.route: Route = find_route(source, target, shape=shape, item_bytes=item_bytes)
        self._given = _of_gradient(target) if gradient is None else Placed(mesh=target.mesh, layout=gradient)
        self._scale = (_num_averaged(target) if gradient is None else 1) / _num_averaged(source)
        self._back = find_route(self._given, _of_gradient(source), shape=shape, item_bytes=item_bytes)
        groups = sorted({*groups_of_route(self.route), *groups_of_route(self._back)})
        self._groups = {ranks: dist.new_group(list(ranks)) for ranks in groups}

    def __call__(self, held: Tensor | None) -> Tensor | None:
        """This rank's part after the change; None on a rank outside the target's mesh. Blocks.

        `held` is its part before, None outside the source's mesh. All ranks of both meshes must call. Autograd goes
        through it where both meshes have the same ranks, and all of them must then go backward. Raises ValueError for a
        part of another shape or type.
        """
        if held is not None and held.requires_grad and set(self.source.mesh.ranks) == set(self.target.mesh.ranks):
            result: Tensor = _Change.apply(held, self)
            return result
        return self._move(self.route, self.source, held)

    def gradient(self, grad: Tensor | None) -> Tensor | None:
        """The gradient of this rank's part before, from that of its part after; None outside the source's mesh. Blocks.

        For meshes of different ranks, where a rank that only gives has no result to go backward from. All ranks of both
        meshes must call. Raises ValueError for a part of another shape or type, and for a partial maximum or minimum,
        which has no gradient here.
        """
        for partial in (*_partials(self.source), *_partials(self.target)):
            if partial.reduce_op not in ("sum", "avg"):
                raise ValueError(f"a change from or to a partial {partial.reduce_op} has no gradient")
        found = self._move(self._back, self._given, grad)
        return found if found is None or self._scale == 1 else found * self._scale

    def _move(self, route: Route, before: Placed, held: Tensor | None) -> Tensor | None:
        rank = dist.get_rank()
        expected = local_shape(self.shape, before.layout, before.mesh, rank) if rank in before.mesh.ranks else None
        found = None if held is None else tuple(held.shape)
        if found != expected or (held is not None and held.dtype != self._like.dtype):
            told = "none" if held is None else f"{held.dtype} of shape {found}"
            wanted = "none" if expected is None else f"{self._like.dtype} of shape {expected}"
            raise ValueError(f"rank {rank} holds {wanted} before this change, found {told}")
        return run_route(route, held, rank, self._groups.__getitem__, like=self._like)


class _Change(torch.autograd.Function):
    """The change as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, held: Tensor, change: Boxing) -> Tensor:
        ctx.change = change
        found = change._move(change.route, change.source, held.detach())
        assert found is not None, "both meshes have the same ranks"
        # A change that moves nothing gives its input: autograd wants a tensor of its own.
        return found.view_as(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None]:
        return ctx.change.gradient(grads[0].contiguous()), None


def _of_gradient(placed: Placed) -> Placed:
    """How the gradient lies of a tensor that lies so: of partial shares every one has the gradient of the whole."""
    on = {axis: placed.layout.on(axis) for axis, _ in placed.mesh.axes}
    whole = {axis: Broadcast() if isinstance(each, Partial) else each for axis, each in on.items()}
    return Placed(mesh=placed.mesh, layout=Layout(whole))


def _partials(placed: Placed) -> Iterator[Partial]:
    for axis, _ in placed.mesh.axes:
        found = placed.layout.on(axis)
        if isinstance(found, Partial):
            yield found


def _num_averaged(placed: Placed) -> int:
    """Of how many shares the tensor is the mean: the gradient of each is that much smaller than the whole's."""
    on = ((placed.layout.on(axis), size) for axis, size in placed.mesh.axes)
    return math.prod(size for each, size in on if isinstance(each, Partial) and each.reduce_op == "avg")
