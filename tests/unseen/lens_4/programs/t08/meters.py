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
        for n in self.names:
            v = self.total[n].clone()
            dist.all_reduce(v)  #: LINE
            self.shared[n] = v / dist.get_world_size()
