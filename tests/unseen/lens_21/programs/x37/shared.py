import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def shared(model, rate):
    """Each rank keeps the optimizer's state of some of the weights alone, and sends these when it has changed them."""
    wrapped = DistributedDataParallel(model)
    return wrapped, ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.Adam, lr=rate, fused=True)
