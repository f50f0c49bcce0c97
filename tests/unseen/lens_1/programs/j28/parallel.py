import torch
import torch.distributed as dist


def average(params, world):
    for p in params:
        dist.all_reduce(p.grad)  #: LINE
        p.grad /= world


def mean_of(*values):
    t = torch.tensor(values)
    dist.all_reduce(t)
    return (t / dist.get_world_size()).tolist()
