"""Adam whose state is split over the ranks by parameter: each updates its own, then all get the new values."""

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class ThirdsAdam:
    def __init__(self, params, lr):
        self.world, self.params = dist.get_world_size(), params
        self.owned = [params[r :: self.world] for r in range(self.world)]
        self.inner = torch.optim.Adam(self.owned[dist.get_rank()], lr=lr)

    def _mean_gradients(self):
        grads = [p.grad for p in self.params]
        flat = _flatten_dense_tensors(grads)
        dist.all_reduce(flat)
        flat /= self.world
        for grad, new in zip(grads, _unflatten_dense_tensors(flat, grads)):
            grad.copy_(new)

    @torch.no_grad()
    def _spread(self, owner):
        for p in self.owned[owner]:
            dist.broadcast(p.data, src=owner)  #: LINE

    def step(self):
        self._mean_gradients()
        self.inner.step()
        for owner in range(self.world):
            self._spread(owner)
