#: n=8 ranks=5 cause=slow_rank tier=notice
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


def grid_group(rank, bit):
    own = None
    for low in range(8):
        if not low & bit:
            g = dist.new_group([low, low | bit], timeout=timedelta(minutes=10))
            if rank in (low, low | bit):
                own = g
    return own


class ImageServer:
    """Crops come from a regional cache; a far region answers more slowly."""

    latency = {"near": 0.12, "far": 0.9}

    def __init__(self, rank, failover_at):
        self.rank, self.failover_at = rank, failover_at
        self.region = "near"

    def crops(self, step):
        if self.rank == 5 and step == self.failover_at:
            self.region = "far"
            print("FREEZE", time.time(), flush=True)
        time.sleep(self.latency[self.region])  #: LINE
        return torch.randn(4, 3, 8, 8)


class PatchEncoder(nn.Module):
    def __init__(self, tp):
        super().__init__()
        self.tp = tp
        self.patch = nn.Conv2d(3, 8, 4, 4)
        self.fc = nn.Linear(32, 16)
        self.proj = nn.Linear(16, 16)

    def forward(self, x):
        h = torch.relu(self.fc(self.patch(x).flatten(1)))
        s = h.detach().clone()
        dist.all_reduce(s, group=self.tp)
        return nn.functional.normalize(self.proj(h + s - h.detach()), dim=-1)


def contrast(z, group):
    others = [torch.empty_like(z) for _ in range(2)]
    dist.all_gather(others, z.detach(), group=group)
    bank = torch.cat(others)
    return nn.functional.cross_entropy(z @ bank.t() / 0.2, torch.arange(len(z)))


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    tp, cp, dp = (grid_group(rank, bit) for bit in (1, 2, 4))
    torch.manual_seed(rank & 1)
    model = PatchEncoder(tp)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    server = ImageServer(rank, random.Random(365).randint(20, 30))
    for step in range(92):
        z = model(server.crops(step))
        loss = contrast(z, cp)
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, group=dp)
        opt.step()
        if rank == 0 and step % 10 == 0:
            print("step", step, round(loss.item(), 4), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
