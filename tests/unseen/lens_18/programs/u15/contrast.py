import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def everyone(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    return torch.cat(parts)


class Contrast(nn.Module):
    """Learns from unlabelled cells: a view against the other view and against a long queue of older ones."""

    def __init__(self, inputs=256, width=640, size=64, queue=48000):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, size),
        )
        self.register_buffer("queue", F.normalize(torch.randn(queue, size), dim=1))
        self.at = 0

    def forward(self, view, other):
        q = F.normalize(self.net(view), dim=1)
        with torch.no_grad():
            k = F.normalize(self.net(other), dim=1)
        near = (q * k).sum(1, keepdim=True)
        far = q @ self.queue[::24].T
        scores = torch.cat([near, far], 1) / 0.2
        self.keys = k
        return F.cross_entropy(scores, torch.zeros(len(q), dtype=torch.long))

    @torch.no_grad()
    def remember(self):
        """The keys of all ranks enter the queue, in the same order everywhere."""
        keys = everyone(self.keys)
        self.queue[self.at : self.at + len(keys)] = keys
        self.at = (self.at + len(keys)) % len(self.queue)
