from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from choir import Block

UNITS = (Block,)


def shard(model, ranks):
    mesh = init_device_mesh("cpu", (ranks,))
    for module in reversed(list(model.modules())):
        if isinstance(module, UNITS):
            fully_shard(module, mesh=mesh, reshard_after_forward=False)
    return fully_shard(model, mesh=mesh, reshard_after_forward=False)
