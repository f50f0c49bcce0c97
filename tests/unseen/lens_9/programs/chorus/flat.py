import torch
import torch.distributed as dist


class FlatSync:
    """All the gradients live in one long vector, which is summed in one go."""

    def __init__(self, model):
        self.params = list(model.parameters())
        self.flat = torch.zeros(sum(p.numel() for p in self.params))
        at = 0
        for p in self.params:
            dist.broadcast(p.data, 0)
            p.grad = self.flat[at:at + p.numel()].view_as(p)
            at += p.numel()

    def zero(self):
        self.flat.zero_()

    def average(self):
        work = dist.all_reduce(self.flat, async_op=True)
        work.wait()
        self.flat /= dist.get_world_size()
        return torch.linalg.vector_norm(self.flat)
