import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class MoCo(nn.Module):
    def __init__(self, encoder, dim=96, size=65536, momentum=0.99, temperature=0.2):
        super().__init__()
        self.momentum, self.temperature = momentum, temperature
        self.query = encoder
        self.key = copy.deepcopy(encoder).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(size, dim), dim=1))
        self.place = 0

    @torch.no_grad()
    def follow(self):
        torch._foreach_lerp_(list(self.key.parameters()), list(self.query.parameters()), 1 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        everyone = [torch.empty_like(keys) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, keys)
        keys = torch.cat(everyone)
        self.queue[self.place:self.place + len(keys)] = keys
        self.place = (self.place + len(keys)) % len(self.queue)

    def forward(self, first, second):
        q = self.query(first)
        with torch.no_grad():
            self.follow()
            k = self.key(second)
        positive = (q * k).sum(1, keepdim=True)
        negative = q @ self.queue.T
        logits = torch.cat([positive, negative], 1) / self.temperature
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.int64)), k
