import torch
import torch.distributed as dist


class Share:
    """All gradients lie in one piece of memory, which is summed over the ranks at once."""

    def __init__(self, model):
        self.parameters = list(model.parameters())
        self.flat = torch.zeros(sum(p.numel() for p in self.parameters))
        begin = 0
        for p in self.parameters:
            p.grad = self.flat[begin : begin + p.numel()].view_as(p)
            begin += p.numel()
        with torch.no_grad():
            for p in self.parameters:
                dist.broadcast(p, 0)

    def clear(self):
        self.flat.zero_()

    def average(self):
        dist.all_reduce(self.flat)
        self.flat /= dist.get_world_size()
