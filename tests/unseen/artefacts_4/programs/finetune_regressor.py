"""Fine-tuning inside a time slot: stop cleanly before the queue ends the job."""
import argparse
import time

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Budget:
    """True while there is time left for another step and the final save."""

    def __init__(self, seconds, reserve):
        self.start = time.monotonic()
        self.seconds = seconds - reserve

    def left(self):
        return time.monotonic() - self.start < self.seconds


class Encoder(nn.Module):
    def __init__(self, width=192, depth=4):
        super().__init__()
        self.inp = nn.Linear(64, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return self.out(x).squeeze(-1)


def load_part(rank, world, rows=20000):
    g = torch.Generator().manual_seed(100 + rank)
    x = torch.randn(rows // world, 64, generator=g)
    y = x[:, :8].sum(1) + 0.1 * torch.randn(rows // world, generator=g)
    return x, y


def train(args):
    rank, world = dist.get_rank(), dist.get_world_size()
    budget = Budget(args.minutes * 60, args.reserve)
    x, y = load_part(rank, world)
    model = DDP(Encoder())
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    step = 0
    while step < args.max_steps:
        if not budget.left():
            print(f"[rank {rank}] time is up after {step} steps", flush=True)
            break
        idx = torch.randint(0, x.shape[0], (args.batch,))
        loss = nn.functional.mse_loss(model(x[idx]), y[idx])
        loss.backward()
        opt.step()
        opt.zero_grad()
        step += 1
        if step % 50 == 0 and rank == 0:
            print(f"step {step} mse {loss.item():.4f}", flush=True)
    return model, step


def save(model, step, path):
    dist.barrier()
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict(), "step": step}, path)
    dist.barrier()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--minutes", type=float, default=30)
    ap.add_argument("--reserve", type=float, default=5, help="seconds kept for saving")
    ap.add_argument("--max-steps", type=int, default=100000)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--out", default="regressor.pt")
    a = ap.parse_args()
    dist.init_process_group("gloo")
    m, s = train(a)
    save(m, s, a.out)
    dist.destroy_process_group()
