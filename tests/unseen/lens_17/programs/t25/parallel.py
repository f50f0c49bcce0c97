from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def has_own_weights(module):
    return any(True for _ in module.parameters(recurse=False))


def shard(model, world):
    mesh = init_device_mesh("cpu", (world,))
    for module in [m for m in model.modules() if has_own_weights(m)]:  #: LINE
        fully_shard(module, mesh=mesh)
    return fully_shard(model, mesh=mesh)
