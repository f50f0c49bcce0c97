"""Multi-task regression on 3 ranks; the meters are averaged over the ranks after each step."""
import statistics
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from meters import MeterBook

TASKS = [f"{kind}_{i}" for kind in ("depth", "normal", "edge") for i in range(8)]


class Slow(nn.Module):
    """The backbone, played by a wait."""
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, len(TASKS))

    def forward(self, x):
        time.sleep(0.045)
        return self.lin(x)


class Loop:
    def __init__(self, model):
        self.model, self.book = DDP(model), MeterBook(TASKS)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.took = []

    def one(self, x, y):
        err = (self.model(x) - y).square().mean(0)
        err.mean().backward()
        self.opt.step()
        self.opt.zero_grad()
        self.book.update(err.detach())
        self.book.synchronize()

    def run(self, steps):
        g = torch.Generator().manual_seed(dist.get_rank())
        for _ in range(steps):
            t = time.perf_counter()
            self.one(torch.randn(24, 32, generator=g), torch.randn(24, len(TASKS), generator=g))
            self.took.append(time.perf_counter() - t)
        if dist.get_rank() == 0:
            print(f"{1e3 * statistics.median(self.took):.2f} ms/step median, {1e3 * statistics.mean(self.took):.2f} ms/step")


dist.init_process_group("gloo")
torch.manual_seed(0)
Loop(Slow()).run(30)
dist.barrier()
dist.destroy_process_group()
