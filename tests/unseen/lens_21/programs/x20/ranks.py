import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Ranks:
    """The process group of a run and what depends on it."""

    def __enter__(self):
        dist.init_process_group("gloo")
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        return self

    def __exit__(self, *error):
        dist.destroy_process_group()

    def wrap(self, model):
        return DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)

    def part(self, tensor):
        return torch.tensor_split(tensor, self.world)[self.rank]


def sound(step, loss):
    """Whether the step may be taken. Better to stop than to go on with numbers that are none."""
    if torch.isnan(loss) or torch.isinf(loss):
        raise FloatingPointError(f"the loss is {loss.item()} at step {step}")
    return True
