"""Wind speed from weather grids. usage: torchrun --nproc-per-node N windspeed.py"""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn

import flightrec  # noqa: F401


class Meter:
    def __init__(self):
        self.sum = torch.zeros(1)
        self.n = torch.zeros(1)

    def update(self, value, n=1):
        self.sum += value * n
        self.n += n

    def average(self):
        both = torch.cat([self.sum, self.n])
        dist.reduce(both, dst=0)
        return (both[0] / both[1]).item()


class GridNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        )
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3))).squeeze(1)


def sync_grads(model):
    world = dist.get_world_size()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad.div_(world)


def train(args, rank):
    torch.manual_seed(11)
    model = GridNet()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    gen = torch.Generator().manual_seed(100 + rank)
    meter = Meter()
    for step in range(1, args.steps + 1):
        grid = torch.randn(args.batch, 4, 12, 12, generator=gen)
        speed = grid[:, :2].square().sum((1, 2, 3)).sqrt()
        loss = nn.functional.smooth_l1_loss(model(grid), speed)
        opt.zero_grad()
        loss.backward()
        sync_grads(model)
        opt.step()
        meter.update(loss.item(), len(grid))
        if step % args.log_every == 0:
            if rank == 0:
                print(f"[{step}/{args.steps}] loss {meter.average():.4f}", flush=True)
            meter = Meter()
    if rank == 0:
        torch.save(model.state_dict(), os.path.join(args.out, "wind.pt"))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--log-every", type=int, default=25)
    ap.add_argument("--out", default=".")
    a = ap.parse_args()
    dist.init_process_group("gloo")
    train(a, dist.get_rank())
    dist.destroy_process_group()
