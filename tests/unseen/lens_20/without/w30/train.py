import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel import spread


class Pages(nn.Module):
    """Writer of a page, by counts of its words."""

    def __init__(self, words=1500, width=800, writers=40):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(words, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, writers),
        )

    def forward(self, x):
        return self.net(x)


def main(steps=60, batch=160):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = spread(Pages())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, fused=True)
    torch.manual_seed(1 + rank)
    writer = torch.randint(0, 40, (2000,))
    counts = torch.poisson(0.2 * torch.rand(40, 1500)[writer])
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 2000, (batch,))
        loss = F.cross_entropy(model(counts[picked]), writer[picked], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
