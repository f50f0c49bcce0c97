import torch
import torch.distributed as dist


@torch.no_grad()
def broadcast_parameters(model):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)


@torch.no_grad()
def average_gradients(model):
    world = dist.get_world_size()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    flat /= world
    for g, part in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(part.view_as(g))
