"""Data parallelism by hand."""
import torch
import torch._utils
import torch.distributed as dist


def broadcast_parameters(model):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)


def average_gradients(model):
    world = dist.get_world_size()
    grads = [p.grad for p in model.parameters()]
    flat = torch._utils._flatten_dense_tensors(grads)
    dist.all_reduce(flat)
    flat /= world
    for grad, mean in zip(grads, torch._utils._unflatten_dense_tensors(flat, grads)):
        grad.copy_(mean)
