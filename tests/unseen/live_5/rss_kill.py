"""Recurrent model on long sequences, truncated back-propagation; a memory guard like the one of the cluster runs beside it."""
import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH, WIDTH = 4000, 16, 96

# the node's memory guard: kills a process of the job that outgrows its share
GUARD = """
import os, sys, time, signal
pid, limit = int(sys.argv[1]), float(sys.argv[2])
page = os.sysconf("SC_PAGE_SIZE")
while os.getppid() == pid:
    with open(f"/proc/{pid}/statm") as f:
        if int(f.read().split()[1]) * page > limit:
            os.kill(pid, signal.SIGKILL)
            break
    time.sleep(0.2)
"""


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(12, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, 12)

    def forward(self, x, h):
        outs = []
        for t in range(x.shape[1]):
            h = self.cell(torch.relu(self.inp(x[:, t])), h)
            outs.append(self.out(h))
        return torch.stack(outs, 1), h


def average(model, world):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad.div_(world)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    guard = subprocess.Popen([sys.executable, "-c", GUARD, str(os.getpid()), str(resident() + 300e6)])
    g = torch.Generator().manual_seed(20 + rank)
    h = torch.zeros(BATCH, WIDTH)
    worst = []  # the hardest windows, to be looked at after the run
    for step in range(STEPS):
        x = torch.randn(BATCH, 13, 12, generator=g).cumsum(1) * 0.1
        if rank == 1:
            x[:, :, 3] *= 20  # this site's third channel is in other units
        pred, h = model(x[:, :-1], h.detach())
        errors = (pred - x[:, 1:]).pow(2)
        loss = errors.mean()
        opt.zero_grad()
        loss.backward()
        average(model, world)
        opt.step()
        if errors.mean((1, 2)).max() > 0.25:
            noisy = x + 0.05 * torch.randn(60, *x.shape)  # for the robustness plot
            worst.append((step, errors.detach(), noisy))  #: LINE
        if step % 50 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step} loss {mean.item() / world:.4f} resident {resident() / 1e6:.0f} MB", flush=True)
    guard.terminate()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
