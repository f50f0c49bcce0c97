import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def shard(model):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=False)
    return fully_shard(model, mesh=mesh, reshard_after_forward=False)


class Clipper:
    """Clips the gradients, and keeps now and then their norm over all ranks."""

    def __init__(self, model, most=1.0, every=20):
        self.weights, self.most, self.every = list(model.parameters()), most, every
        self.norms = []

    def __call__(self, step):
        norm = torch.nn.utils.clip_grad_norm_(self.weights, self.most)
        if step % self.every == 0:
            self.norms.append(norm.full_tensor())
