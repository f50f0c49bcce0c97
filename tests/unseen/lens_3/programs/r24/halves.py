"""Each rank keeps the momentum of its own half of the parameters and updates that half alone."""
import torch
import torch.distributed as dist


class Halves:
    def __init__(self, params, rate, beta=0.9):
        self.params = list(params)
        self.rate, self.beta = rate, beta
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        count = sum(p.numel() for p in self.params)
        self.part = -(-count // self.world)
        self.flat = torch.zeros(self.part * self.world)
        at = 0
        for p in self.params:
            self.flat[at:at + p.numel()] = p.data.flatten()
            p.data = self.flat[at:at + p.numel()].view_as(p)
            at += p.numel()
        self.mine = self.flat[self.rank * self.part:(self.rank + 1) * self.part].clone()
        self.speed = torch.zeros_like(self.mine)

    def update(self):
        grads = torch.cat([p.grad.flatten() for p in self.params])
        grads = torch.nn.functional.pad(grads, (0, len(self.flat) - len(grads)))
        own = torch.empty_like(self.mine)
        dist.reduce_scatter_tensor(own, grads)
        self.speed.mul_(self.beta).add_(own / self.world)
        self.mine.sub_(self.speed, alpha=self.rate)
        for p in self.params:
            p.grad = None

    def collect(self):
        return dist.all_gather_into_tensor(self.flat, self.mine, async_op=True)  #: LINE
