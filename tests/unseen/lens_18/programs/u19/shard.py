from torch import nn
from torch.distributed.fsdp import fully_shard

UNITS = (nn.Linear, nn.LayerNorm)


def shard(model, mesh):
    """Every unit gathers its weights for itself; they stay until the backward pass."""
    for module in model.modules():
        if isinstance(module, UNITS):
            fully_shard(module, mesh=mesh, reshard_after_forward=False)  #: LINE
    return fully_shard(model, mesh=mesh, reshard_after_forward=False)
