import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Voices(nn.Module):
    def __init__(self, bins=160, hidden=224):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(bins, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))

    def forward(self, x):
        return self.net(x)


class Mean:
    """Mean of a number over the ranks, one step behind."""

    def __init__(self):
        self.pending, self.values = None, []

    def put(self, value):
        self.take()
        value = value.detach().clone()
        self.pending = dist.all_reduce(value, async_op=True), value

    def take(self):
        if self.pending:
            work, value = self.pending
            work.wait()
            self.values.append(value.item() / dist.get_world_size())
            self.pending = None


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(dist.get_rank())
    model = DistributedDataParallel(Voices())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_mean, ms = Mean(), []
    for step in range(64):
        t = time.perf_counter()
        x = torch.rand(2048, 160, generator=g)
        y = x[:, :4].argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        loss_mean.put(loss)
        opt.step()
        ms.append(1000 * (time.perf_counter() - t))
    loss_mean.take()
    if dist.get_rank() == 0:
        print(f"loss {loss_mean.values[-1]:.3f}")
        print(f"{statistics.median(ms[3:]):.2f} ms/step median, {statistics.mean(ms[3:]):.2f} ms/step")
    del model, opt, loss
    dist.destroy_process_group()


main()
