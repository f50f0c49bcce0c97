import zlib

import torch
import torch.distributed as dist
from torch import nn


class Hum(nn.Module):
    """Is the queen still in the hive? From the spectrum of its hum."""

    def __init__(self, bands=256, width=640, answers=4):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(bands, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, answers),
        )

    def forward(self, hum):
        return self.net(hum)


def hums(count, bands=256, answers=4):
    answer = torch.randint(answers, (count,))
    return torch.randn(answers, bands)[answer] + 3 * torch.randn(count, bands), answer


class DriftGuard:
    """Compares a checksum of the weights over the ranks, at the start and now and then."""

    def __init__(self, module, every):
        self.module, self.every = module, every

    def checksum(self):
        total = 0
        for weight in self.module.parameters():
            total = zlib.crc32(weight.detach().numpy(), total)
        return total

    def __call__(self, step):
        if step % self.every:
            return
        mine = torch.tensor([self.checksum()])
        sums = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(sums, mine)
        assert all(torch.equal(mine, other) for other in sums), f"ranks drifted apart before step {step}"
