"""A table whose rows are split over the ranks. All ranks see the same batch here, so a row's gradient is the same everywhere."""

import torch
import torch.distributed as dist


class SplitTable:
    def __init__(self, rows, dim):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.per = rows // self.world
        self.mine = torch.nn.Parameter(torch.randn(self.per, dim) * 0.05)

    @torch.no_grad()
    def whole(self):
        out = torch.empty(self.per * self.world, self.mine.shape[1])
        dist.all_gather_into_tensor(out, self.mine.data)
        return out

    def take(self, grad):
        self.mine.grad = grad[self.rank * self.per : (self.rank + 1) * self.per].clone()
