"""DDP with callbacks on 3 ranks; the leader of the second host reports its health."""
import statistics
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from callbacks import BestLoss, HealthReport


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(40, 80), nn.GELU(), nn.Linear(80, 4))

    def forward(self, x):
        time.sleep(0.042)
        return self.body(x)


class Trainer:
    def __init__(self, net, callbacks):
        self.net, self.callbacks, self.step_no = DDP(net), callbacks, 0
        self.opt = torch.optim.RMSprop(self.net.parameters(), lr=1e-3)

    def call(self, what, **kw):
        for c in self.callbacks:
            getattr(c, what, lambda *a, **k: None)(self, **kw)

    def fit(self, data):
        took = []
        for x, y in data:
            t = time.perf_counter()
            loss = nn.functional.cross_entropy(self.net(x), y)
            loss.backward()
            self.opt.step()
            self.opt.zero_grad()
            self.step_no += 1
            self.call("step_end", loss=loss.detach())
            took.append(time.perf_counter() - t)
        return took


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(5)
    rank = dist.get_rank()
    callbacks = [BestLoss()]
    if rank == 1:  # first rank of the second host
        callbacks.append(HealthReport("host-b"))
    data = [(torch.randn(16, 40), torch.randint(4, (16,))) for _ in range(30)]
    took = Trainer(Net(), callbacks).fit(data)
    if rank == 0:
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()
