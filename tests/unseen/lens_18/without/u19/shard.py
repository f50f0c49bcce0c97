from torch.distributed.fsdp import fully_shard

from weather import Layer

UNITS = (Layer,)


def shard(model, mesh):
    """Every unit gathers its weights for itself; they stay until the backward pass."""
    for module in model.modules():
        if isinstance(module, UNITS):
            fully_shard(module, mesh=mesh, reshard_after_forward=False)
    return fully_shard(model, mesh=mesh, reshard_after_forward=False)
