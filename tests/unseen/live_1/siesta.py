"""Ranks give the CPU away for a while; a helper wakes them again."""
import os
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist

WAKE = "import os,sys,time,signal; time.sleep(float(sys.argv[2])); os.kill(int(sys.argv[1]), signal.SIGCONT)"


def nap(secs):
    helper = subprocess.Popen([sys.executable, "-c", WAKE, str(os.getpid()), str(secs)])
    t = time.time()
    os.kill(os.getpid(), signal.SIGSTOP)
    helper.wait()
    return time.time() - t


def schedule(step):
    return {6: (1, 8.0), 14: (2, 5.0), 15: (0, 6.0)}.get(step, (None, 0))


class Mixer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = torch.nn.Linear(9, 9)
        self.chan = torch.nn.Linear(12, 12)

    def forward(self, x):
        x = x + self.tok(x.transpose(1, 2)).transpose(1, 2)
        return x + self.chan(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    net = torch.nn.parallel.DistributedDataParallel(Mixer())
    opt = torch.optim.SGD(net.parameters(), 1e-2)
    for step in range(24):
        who, secs = schedule(step)
        if who == rank:
            print(f"rank {rank} was away {nap(secs):.1f}s", flush=True)
        loss = net(torch.randn(4, 9, 12)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            print("step", step, round(loss.item(), 4), flush=True)
    dist.destroy_process_group()


main()
