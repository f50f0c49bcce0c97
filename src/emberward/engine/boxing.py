"""The route planner for your own tensors: the cheapest way from one layout to another, run on torch's process groups.

    from emberward import boxing

See docs/boxing.md. Needs torch.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from emberward.engine._boxing import groups_of_route, run_route
from emberward.layout import Axis, Broadcast, Layout, Mesh, Partial, Split, local_shape
from emberward.plan import Placed, Route, find_route

__all__ = ["Axis", "Boxing", "Broadcast", "Layout", "Mesh", "Partial", "Placed", "Route", "Split", "find_route"]


class Boxing:
    """A change of layout that this process can make again and again: its `route`, and the process groups it needs.

    `source` and `target` say which ranks hold which parts of a tensor of `shape` before and after. Every rank of the
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
    ) -> None:
        self.source, self.target, self.shape = source, target, shape
        self._like = torch.empty(0, dtype=dtype, device=device)
        self.route: Route = find_route(source, target, shape=shape, item_bytes=self._like.element_size())
        self._groups = {ranks: dist.new_group(list(ranks)) for ranks in groups_of_route(self.route)}

    def __call__(self, held: Tensor | None) -> Tensor | None:
        """This rank's part after the change; None on a rank outside the target's mesh. Blocks.

        `held` is its part before, None outside the source's mesh. All ranks of both meshes must call. Raises ValueError
        for a part of another shape or type.
        """
        rank = dist.get_rank()
        is_source = rank in self.source.mesh.ranks
        expected = local_shape(self.shape, self.source.layout, self.source.mesh, rank) if is_source else None
        found = None if held is None else tuple(held.shape)
        if found != expected or (held is not None and held.dtype != self._like.dtype):
            told = "none" if held is None else f"{held.dtype} of shape {found}"
            wanted = "none" if expected is None else f"{self._like.dtype} of shape {expected}"
            raise ValueError(f"rank {rank} holds {wanted} before this change, found {told}")
        return run_route(self.route, held, rank, self._groups.__getitem__, like=self._like)
