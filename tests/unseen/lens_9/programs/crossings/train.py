"""Is there danger at this crossing?  A net over the objects of a scene, summed up; DDP."""
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from scenes import all_scenes, collate, my_share


class Danger(nn.Module):
    def __init__(self, features=20, d=384):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, d), nn.GELU(), nn.Linear(d, d), nn.GELU(), nn.Linear(d, d), nn.GELU(), nn.Linear(d, d))
        self.judge = nn.Linear(d, 1)

    def forward(self, x, owner, scenes):
        h = self.body(x)
        total = h.new_zeros(scenes, h.shape[1]).index_add(0, owner, h)
        return self.judge(total).squeeze(-1)


class Clock:
    def __init__(self):
        self.ms, self.t = [], None

    def tick(self):
        t = time.perf_counter()
        if self.t is not None:
            self.ms.append(1000 * (t - self.t))
        self.t = t

    def __str__(self):
        ms = self.ms[3:]
        return f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step"


def endless(loader):
    while True:
        yield from loader


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(Danger())
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    mine = my_share(all_scenes(), rank, world)
    loader = DataLoader(mine, batch_size=20, shuffle=True, collate_fn=collate, drop_last=True)
    clock = Clock()
    for step, (x, owner, y) in enumerate(endless(loader)):
        if step == 62:
            break
        loss = nn.functional.binary_cross_entropy_with_logits(model(x, owner, len(y)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        clock.tick()
    if rank == 0:
        print(clock, flush=True)
    del model, opt, loss
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
