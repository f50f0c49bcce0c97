import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from stats import same_stats

STEPS = 20


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.bn = nn.Linear(16, 16), nn.BatchNorm1d(16)

    def forward(self, x):
        return torch.relu(self.bn(self.lin(x)))


class Many(nn.Module):
    def __init__(self, n=22):
        super().__init__()
        self.branches = nn.ModuleList(Branch() for _ in range(n))
        self.out = nn.Linear(16 * n, 5)

    def forward(self, x):
        time.sleep(0.1)
        return self.out(torch.cat([b(x) for b in self.branches], 1))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(3)
    net = DDP(Many(), broadcast_buffers=False)
    opt = torch.optim.SGD(net.parameters(), 0.02)
    t = 0.0
    for step in range(STEPS):
        if step == 2:
            t = time.perf_counter()
        x = torch.randn(24, 16)
        loss = nn.functional.cross_entropy(net(x), x[:, :5].argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        same_stats(net.module)
    if dist.get_rank() == 0:
        print(f"branches: {(time.perf_counter() - t) / (STEPS - 2) * 1e3:.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
