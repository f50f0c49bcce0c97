import torch
import torch.distributed as dist


def same_start(model, source=0):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, source)


def average_gradients(model):
    """Data parallel by hand: every rank goes on with the mean of all gradients."""
    grads = [parameter.grad for parameter in model.parameters()]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat.div_(dist.get_world_size())
    for grad, mean in zip(grads, flat.split([grad.numel() for grad in grads])):
        grad.copy_(mean.view_as(grad))
