"""Two-tier local SGD: three sites of two ranks. A site averages gradients in each step; sites average weights at their own
pace in pairs, and all of them every 60 steps. Sites have different numbers of collectives in their groups."""
import time

import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH = 360, 32
PAIR_EVERY = {(0, 1): 9, (1, 2): 15}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 10))

    def forward(self, x):
        return self.net(x)


def average(tensors, group, n):
    flat = torch.cat([t.reshape(-1) for t in tensors])
    dist.all_reduce(flat, group=group)
    flat /= n
    at = 0
    for t in tensors:
        t.copy_(flat[at : at + t.numel()].view_as(t))
        at += t.numel()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    sites = [[s, s + 1] for s in range(0, world, 2)]
    mine = rank // 2
    site_groups = [dist.new_group(r) for r in sites]
    pair_groups = {pair: dist.new_group(sites[pair[0]] + sites[pair[1]]) for pair in PAIR_EVERY}
    torch.manual_seed(0)
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    g = torch.Generator().manual_seed(rank)
    begin = time.time()
    counts = {"pair": 0, "all": 0}
    for step in range(1, STEPS + 1):
        # site 2 has less memory and takes two micro-batches
        opt.zero_grad()
        parts = 2 if mine == 2 else 1
        for part in range(parts):
            x = torch.randn(BATCH // parts, 64, generator=g)
            y = x[:, :10].argmax(1)
            loss = nn.functional.cross_entropy(model(x), y) / parts
            loss.backward()
        with torch.no_grad():
            average([p.grad for p in model.parameters()], site_groups[mine], 2)
            opt.step()
            for pair, every in PAIR_EVERY.items():
                if mine in pair and step % every == 0:
                    average([p.data for p in model.parameters()], pair_groups[pair], 4)
                    counts["pair"] += 1
            if step % 60 == 0:
                average([p.data for p in model.parameters()], None, world)
                counts["all"] += 1
        if rank == 0 and step % 60 == 0:
            print(f"step {step} loss {loss.item():.3f} {time.time() - begin:.1f} s", flush=True)
    print(f"[{rank}] {counts}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
