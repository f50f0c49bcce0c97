import torch
import torch.distributed as dist


@torch.no_grad()
def broadcast_parameters(model):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)


@torch.no_grad()
def average_gradients(model):
    world = dist.get_world_size()
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)  #: LINE
            p.grad /= world
