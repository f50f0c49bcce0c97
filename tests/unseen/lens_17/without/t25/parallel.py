from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def shard(model, world):
    mesh = init_device_mesh("cpu", (world,))
    for module in model.blocks:
        fully_shard(module, mesh=mesh)
    return fully_shard(model, mesh=mesh)
