import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def parallel(model):
    return DDP(model, gradient_as_bucket_view=True)


def average_gradients(model):
    world = dist.get_world_size()
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= world


def update(model, optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
