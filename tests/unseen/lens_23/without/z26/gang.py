import torch
import torch.distributed as dist


def same_start(model):
    with torch.no_grad():
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)


def average_gradients(model):
    """As in the tutorial: the mean of the gradients over the ranks."""
    grads = [weight.grad for weight in model.parameters()]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for grad, mean in zip(grads, flat.split([grad.numel() for grad in grads])):
        grad.copy_(mean.view_as(grad))
