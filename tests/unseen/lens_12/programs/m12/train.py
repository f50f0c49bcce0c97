import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

from dist_utils import average_gradients, same_start, start


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.a = nn.Linear(width, width)
        self.b = nn.Linear(width, width)

    def forward(self, x):
        return x + self.b(torch.tanh(self.a(self.norm(x))))


def main():
    rank, world = start()
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(40, 200), *[Residual(200) for _ in range(6)], nn.Linear(200, 3))
    same_start(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x = torch.randn(4096, 40)
    y = torch.stack([x[:, :10].sum(1), x[:, 10:20].prod(1), x[:, 3]], 1)
    times = []
    for step in range(64):
        begin = time.perf_counter()
        pick = torch.randint(4096, (640,))
        loss = nn.functional.smooth_l1_loss(model(x[pick]), y[pick])
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        average_gradients(model, world)
        optimizer.step()
        times.append((time.perf_counter() - begin) * 1000)
    if rank == 0:
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    dist.destroy_process_group()


main()
