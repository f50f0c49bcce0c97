#: n=4 ranks=3 cause=unmatched_p2p tier=error set=3
"""Hand-made 1F1B pipeline, one stage per rank, isend for activations and gradients."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

MICRO, BS, DIM = 4, 2, 6


class Stage:
    def __init__(self, rank, world):
        torch.manual_seed(60 + rank)
        self.rank, self.world = rank, world
        self.first, self.last = rank == 0, rank == world - 1
        self.net = nn.Sequential(nn.Linear(DIM, DIM), nn.Tanh())
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.02)
        self.gen = torch.Generator().manual_seed(0)
        self.inflight, self.sends, self.losses = [], [], []

    def _send(self, t, dst):
        self.sends.append((dist.isend(t, dst), t))

    def load(self, step, mb):
        time.sleep(0.03)
        x = torch.randn(BS, DIM, generator=self.gen)
        if step == 17 and mb == 2:
            x[0, 0] = float("nan")         # a hole in the sensor data
        return x

    def forward(self, step, mb):
        if self.first:
            x = self.load(step, mb)
        else:
            x = torch.empty(BS, DIM)
            dist.recv(x, self.rank - 1)
            x.requires_grad_()
        y = self.net(x)
        if self.last:
            y = (y - 0.3).pow(2).mean()
        else:
            self._send(y.detach(), self.rank + 1)
        self.inflight.append((x, y))

    def backward(self):
        x, y = self.inflight.pop(0)
        if self.last:
            if not torch.isfinite(y):
                print("dropping a micro batch, loss is not finite")
                print("FREEZE", time.time(), flush=True)
                return
            y.backward()
            self.losses.append(y.item())
        else:
            g = torch.empty(BS, DIM)
            dist.recv(g, self.rank + 1)
            y.backward(g)
        if not self.first:
            self._send(x.grad, self.rank - 1)

    def finish(self):
        for work, _ in self.sends:
            work.wait()
        self.sends.clear()
        self.opt.step()
        self.opt.zero_grad()


def share_loss(stage):
    t = torch.tensor([sum(stage.losses) / MICRO])
    stage.losses.clear()
    dist.broadcast(t, src=stage.world - 1)  #: LINE
    return t.item()


def one_f_one_b(stage, step):
    warmup = min(stage.world - 1 - stage.rank, MICRO)
    for mb in range(warmup):
        stage.forward(step, mb)
    for mb in range(warmup, MICRO):
        stage.forward(step, mb)
        stage.backward()
    for _ in range(warmup):
        stage.backward()
    stage.finish()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    stage = Stage(dist.get_rank(), dist.get_world_size())
    for step in range(60):
        one_f_one_b(stage, step)
        loss = share_loss(stage)
        if stage.first and step % 5 == 0:
            print(f"step {step} loss {loss:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
