import torch
import torch.distributed as dist


class MeterBook:
    def __init__(self, names):
        self.names = names
        self.total = {n: torch.zeros(()) for n in names}
        self.shared = {}

    def update(self, values):
        for n, v in zip(self.names, values):
            self.total[n] = 0.9 * self.total[n] + 0.1 * v

    def synchronize(self):
        every = torch.stack([self.total[n] for n in self.names])
        dist.all_reduce(every)
        for n, v in zip(self.names, every / dist.get_world_size()):
            self.shared[n] = v
