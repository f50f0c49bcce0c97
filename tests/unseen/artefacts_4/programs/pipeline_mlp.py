"""Three-stage pipeline by hand: activations forward, gradients back, loss to stage 0."""
import argparse

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn

WIDTH = 256


def make_stage(rank, world):
    layers = [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)]
    if rank == world - 1:
        layers += [nn.ReLU(), nn.Linear(WIDTH, 1)]
    return nn.Sequential(*layers)


class Stage:
    def __init__(self, args):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.first, self.last = self.rank == 0, self.rank == self.world - 1
        self.args = args
        torch.manual_seed(self.rank)
        self.net = make_stage(self.rank, self.world)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.01)

    def forward(self, x):
        if not self.first:
            x = torch.empty(self.args.micro, WIDTH)
            dist.recv(x, src=self.rank - 1)
            x.requires_grad_()
        out = self.net(x)
        if not self.last:
            dist.send(out.detach(), dst=self.rank + 1)
        return x, out

    def backward(self, x, out, target):
        if self.last:
            loss = (out.squeeze(-1) - target).pow(2).mean()
            loss.backward()
        else:
            grad = torch.empty_like(out)
            dist.recv(grad, src=self.rank + 1)
            out.backward(grad)
            loss = None
        if not self.first:
            dist.send(x.grad, dst=self.rank - 1)
        return loss

    def train_step(self, step):
        total = torch.zeros(1)
        for _ in range(self.args.chunks):
            g = torch.Generator().manual_seed(step)
            data = torch.randn(self.args.micro, WIDTH, generator=g)
            x, out = self.forward(data)
            loss = self.backward(x, out, data.mean(1))
            if loss is not None:
                total += loss.detach() / self.args.chunks
        self.opt.step()
        self.opt.zero_grad()
        # report the loss to the first stage, which prints it
        if self.last and step % self.args.log_every == 0:
            dist.send(total, dst=0)
        if self.first:
            dist.recv(total, src=self.world - 1)
            if step % self.args.log_every == 0:
                print(f"step {step} loss {total.item():.4f}", flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--chunks", type=int, default=4)
    p.add_argument("--micro", type=int, default=8)
    p.add_argument("--log-every", type=int, default=10)
    a = p.parse_args()
    dist.init_process_group("gloo")
    stage = Stage(a)
    for s in range(a.steps):
        stage.train_step(s)
    dist.barrier()
    dist.destroy_process_group()
