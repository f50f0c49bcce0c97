import torch
import torch.distributed as dist


@torch.no_grad()
def broadcast_weights(model):
    """All ranks start from the weights of rank 0."""
    for parameter in model.parameters():
        dist.broadcast(parameter, src=0)


@torch.no_grad()
def average_gradients(model):
    """The mean of the gradients over the ranks."""
    ranks = dist.get_world_size()
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)  #: LINE
            parameter.grad.div_(ranks)
