"""DDP on a synthetic regression with named sections that time themselves."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Section:
    """Times a block; a block far above its usual time is compared with the peers."""

    usual = {}

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.begin = time.perf_counter()
        return self

    def __exit__(self, kind, value, tb):
        took = time.perf_counter() - self.begin
        mean = Section.usual.get(self.name, took)
        Section.usual[self.name] = 0.9 * mean + 0.1 * took
        if kind is None and took > 0.9 and took > 4 * mean:
            self.compare(took)  #: LINE
        return False

    def compare(self, took):
        everyone = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, (self.name, round(took, 3)))
        print("slow section on the ranks:", everyone, flush=True)


def read_batch(step, rank):
    if step == 17 and rank == 1:
        time.sleep(2.5)  # a cold object on the file server
    g = torch.Generator().manual_seed(step * 10 + rank)
    x = torch.randn(64, 20, generator=g)
    return x, x[:, :3].sum(dim=1, keepdim=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(200):
        with Section("data"):
            time.sleep(0.08)
            x, y = read_batch(step, rank)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0 and rank == 0:
            print(f"{step:4d} {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
