import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def distributed(model, rate):
    """The model for all ranks, and an optimizer whose state is shared out among them."""
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=True, lr=rate, weight_decay=0.05
    )
    return model, optimizer
