"""Traffic forecast on a road graph; hand-written gradient averaging."""
import os
import signal

import torch
import torch.distributed as dist
import torch.nn as nn


class RoadNet(nn.Module):
    def __init__(self, nodes=120, hist=12):
        super().__init__()
        self.mix = nn.Parameter(torch.randn(nodes, nodes) * 0.02)
        self.enc = nn.Linear(hist, 48)
        self.dec = nn.Linear(48, 3)

    def forward(self, speed):
        h = torch.relu(self.enc(speed))
        h = torch.softmax(self.mix, -1) @ h
        return self.dec(h)


class Debugger:
    """Stops the process for a look with gdb if a sensor gives an impossible value."""

    def __init__(self, limit):
        self.limit = limit

    def check(self, speed):
        if speed.max() > self.limit:
            print(f"pid {os.getpid()}: impossible speed {speed.max():.1f}", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)  #: LINE


def average(model):
    world = dist.get_world_size()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net, debugger = RoadNet(), Debugger(limit=260.0)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    g = torch.Generator().manual_seed(100 + rank)
    for step in range(4000):
        speed = torch.rand(8, 120, 12, generator=g) * 130
        if rank == 2 and step == 333:
            speed[3, 77, 5] = 655.35
        debugger.check(speed)
        want = speed[..., -3:]
        loss = nn.functional.mse_loss(net(speed / 130), want / 130)
        opt.zero_grad()
        loss.backward()
        average(net)
        opt.step()
        if rank == 0 and step % 100 == 0:
            print(f"step {step}: {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


main()
