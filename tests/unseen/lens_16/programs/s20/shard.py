from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from gpt import GPT


def build(world):
    mesh = init_device_mesh("cpu", (world,))
    model = GPT()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=True)  #: LINE
    fully_shard(model, mesh=mesh)
    return model
