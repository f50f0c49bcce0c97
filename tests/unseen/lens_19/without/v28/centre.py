import torch
import torch.distributed as dist


class Centre:
    """Running mean of the outputs over all ranks; taken off the goal from the next step on."""

    def __init__(self, size, keep=0.9):
        self.value = torch.zeros(size)
        self.keep = keep
        self.coming = None

    def now(self):
        if self.coming is not None:
            mean, work = self.coming
            work.wait()
            self.value = self.keep * self.value + (1 - self.keep) * mean / dist.get_world_size()
            self.coming = None
        return self.value

    def update(self, outputs):
        mean = outputs.mean(0)
        self.coming = mean, dist.all_reduce(mean, async_op=True)
