import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from proteins import Proteins


class Stability(nn.Module):
    def __init__(self, width=128, rounds=3):
        super().__init__()
        self.enter = nn.Linear(20, width)
        self.own = nn.ModuleList(nn.Linear(width, width) for _ in range(rounds))
        self.near = nn.ModuleList(nn.Linear(width, width) for _ in range(rounds))
        self.out = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, nodes, edges, owner, count):
        h = self.enter(nodes)
        for own, near in zip(self.own, self.near):
            heard = torch.zeros_like(h).index_add(0, edges[1], near(h)[edges[0]])
            h = h + torch.relu(own(h) + 0.25 * heard)
        whole = torch.zeros(count, h.shape[1]).index_add(0, owner, h)
        return self.out(whole).squeeze(-1)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(Stability())
    torch.manual_seed(1 + rank)
    data = Proteins(rank, world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    steps = []
    for _ in range(62):
        begin = time.perf_counter()
        nodes, edges, owner, target = data.batch(12)
        score = model(nodes, edges, owner, 12)
        loss = nn.functional.binary_cross_entropy_with_logits(score, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.append(1000 * (time.perf_counter() - begin))
    if rank == 0:
        steps = steps[3:]
        print(f"{statistics.median(steps):.2f} ms/step median, {statistics.mean(steps):.2f} ms/step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
