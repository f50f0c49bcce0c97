import torch
import torch.distributed as dist


class Meter:
    def __init__(self):
        self.total, self.count = torch.zeros(2), 0

    def add(self, loss, hits):
        self.total += torch.stack([loss.detach(), hits])
        self.count += 1

    def flush(self):
        dist.all_reduce(self.total)
        loss, hits = (self.total / self.count / dist.get_world_size()).tolist()
        self.total.zero_()
        self.count = 0
        return loss, hits
