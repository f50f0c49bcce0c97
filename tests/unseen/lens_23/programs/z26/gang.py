import torch
import torch.distributed as dist


def same_start(model):
    with torch.no_grad():
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)


def average_gradients(model):
    """As in the tutorial: the mean of the gradients over the ranks."""
    ranks = dist.get_world_size()
    for weight in model.parameters():
        dist.all_reduce(weight.grad)  #: LINE
        weight.grad /= ranks
