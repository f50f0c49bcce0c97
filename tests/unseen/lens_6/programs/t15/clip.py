"""The norm of a gradient whose parts lie on different ranks."""
import torch
import torch.distributed as dist


def clip(parameters, limit):
    total = torch.stack([p.grad.square().sum() for p in parameters]).sum()
    work = dist.all_reduce(total, async_op=True)
    work.wait()  #: LINE
    scale = (limit / (total.sqrt() + 1e-6)).clamp(max=1.0)
    for p in parameters:
        p.grad.mul_(scale)
