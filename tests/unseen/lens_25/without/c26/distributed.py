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
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.view(-1) for gradient in gradients])
    dist.all_reduce(flat)
    flat.div_(ranks)
    for gradient, mean in zip(gradients, flat.split([gradient.numel() for gradient in gradients])):
        gradient.copy_(mean.view_as(gradient))
