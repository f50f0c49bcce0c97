import torch
import torch.distributed as dist


def broadcast_model(model):
    for t in model.state_dict().values():
        dist.broadcast(t, 0)


def average_gradients(model):
    size = float(dist.get_world_size())
    grads = [param.grad for param in model.parameters()]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    flat /= size
    for g, f in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(f.view_as(g))
