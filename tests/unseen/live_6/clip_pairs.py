"""Contrastive image/text training with a cache of negatives."""
import resource

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = used + 1400 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


class TwoTower(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.img = nn.Sequential(nn.Linear(512, 256), nn.GELU(), nn.Linear(256, d))
        self.txt = nn.Sequential(nn.Linear(300, 256), nn.GELU(), nn.Linear(256, d))

    def forward(self, a, b):
        return F.normalize(self.img(a), dim=-1), F.normalize(self.txt(b), dim=-1)


def shard(step):
    """The crawl has one domain per rank; some pages carry whole galleries."""
    g = torch.Generator().manual_seed(step * world + rank)
    n = 48
    if rank == 1 and step > 150:
        n = 48 + (step - 150) * 400
    return torch.randn(n, 512, generator=g), torch.randn(n, 300, generator=g)


torch.manual_seed(11)
model = DDP(TwoTower())
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3000):
    a, b = shard(step)
    ia, tb = model(a, b)
    logits = ia @ tb.t() / 0.07  #: LINE
    target = torch.arange(len(a))
    loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0 and rank == 0:
        print(f"step {step} loss {loss.item():.3f}", flush=True)

dist.destroy_process_group()
