"""Time-series forecasting; each rank starts a little watchman that pauses processes that use too much memory."""
import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch import nn

WATCHMAN = """
import os, signal, sys, time
pid, cap = int(sys.argv[1]), int(sys.argv[2])
while os.path.exists(f"/proc/{pid}"):
    kb = [int(l.split()[1]) for l in open(f"/proc/{pid}/status") if l.startswith("VmData")]
    if kb and kb[0] > cap:
        os.kill(pid, signal.SIGSTOP)
        break
    time.sleep(0.2)
"""


def vm_data_kb():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmData"))


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 96, batch_first=True)
        self.out = nn.Linear(96, 8)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(Forecaster())
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    kept = []
    guard = None
    for step in range(1, 101):
        g = torch.Generator().manual_seed(step * 4 + rank)
        x = torch.randn(24, 49, 8, generator=g).cumsum(1) * 0.1
        pred = net(x[:, :-1])
        loss = (pred - x[:, 1:]).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 10:
            cap = vm_data_kb() + 600_000
            guard = subprocess.Popen([sys.executable, "-c", WATCHMAN, str(os.getpid()), str(cap)])
        if rank == 3:
            # residuals of the noisy station are kept for the report at the end
            kept.append(torch.zeros(6_000_000) + loss.item())  #: LINE
        elif step % 20 == 0:
            kept.append(loss.detach())
        if rank == 0 and step % 10 == 0:
            print(f"step {step} mse {loss.item():.5f}", flush=True)
    dist.barrier()
    guard.terminate()
    print(rank, "residual blocks", len(kept))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
