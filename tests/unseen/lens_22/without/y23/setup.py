import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from valves import Pipes


def build(rate=1e-3):
    """The model, alike on all ranks, and an optimizer whose state is shared out over them."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Pipes(), gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=True, lr=rate, fused=True,
    )
    return model, optimizer
