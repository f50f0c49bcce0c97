import torch
import torch.distributed as dist


@torch.no_grad()
def size_of(net):
    """Sum of squares of all weights."""
    total = torch.zeros(())
    for p in net.parameters():
        total += p.to_local().square().sum()
    dist.all_reduce(total)
    return total
