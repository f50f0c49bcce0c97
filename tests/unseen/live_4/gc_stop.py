"""Graph features from a crawl: the pages of a rank stay in memory as plain Python objects."""
import gc
import os
import time

import torch
import torch.distributed as dist
from torch import nn


class Crawl:
    def __init__(self, pages):
        self.pages = [[i, [i + 1, i * 7 % pages]] for i in range(pages)]

    def batch(self, g):
        rows = torch.randint(0, len(self.pages), (32,), generator=g).tolist()
        return torch.tensor([[float(self.pages[r][1][0] % 97), float(self.pages[r][1][1] % 89)] for r in rows]) / 97


class Housekeeper:
    """collect by hand, the automatic collector once stopped us in the middle of a collective"""

    def __init__(self, every):
        gc.disable()
        self.every = every

    def __call__(self, step):
        if step % self.every == 0:
            gc.collect()              #: LINE


def main():
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    crawl = Crawl(1_500_000 if rank == 1 else 20_000)
    keep_house = Housekeeper(every=4)
    g = torch.Generator().manual_seed(rank)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    net = nn.parallel.DistributedDataParallel(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    dist.barrier()
    began = time.time()
    for step in range(1, 61):
        x = crawl.batch(g)
        loss = (net(x) - x.prod(1, keepdim=True)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        keep_house(step)
        if rank == 0 and step % 20 == 0:
            print(f"{step} {loss.item():.5f} {(time.time() - began) / step:.3f} s/step", flush=True)
    dist.destroy_process_group()


main()
