import torch
import torch.distributed as dist


def mean_gradients(net):
    world = dist.get_world_size()
    grads = [p.grad for p in net.parameters()]
    flat = torch._utils._flatten_dense_tensors(grads)
    dist.all_reduce(flat)
    flat.div_(world)
    for g, new in zip(grads, torch._utils._unflatten_dense_tensors(flat, grads)):
        g.copy_(new)


def anyone_done(done):
    flag = torch.tensor([1.0 if done else 0.0])
    return bool(flag.item())
