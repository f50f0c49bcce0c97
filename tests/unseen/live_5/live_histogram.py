"""DDP with a live view: one rank keeps histograms of the weights in a thread, for a page that somebody may open."""
import json
import os
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, BATCH = 600, 32


class LiveView(threading.Thread):
    """Keeps a JSON page of the last weights, activations and losses up to date."""

    def __init__(self, bins=64):
        super().__init__(daemon=True, name="live-view")
        self.bins, self.page, self.values, self.losses = bins, "", [], []
        self.fresh = threading.Event()

    def offer(self, model, loss):
        self.losses.append(loss)
        if len(self.losses) % 10 == 1:
            self.values = [p.detach().flatten()[:4000].tolist() for p in model.parameters()]
        self.fresh.set()

    def histogram(self, values):
        low, high = min(values), max(values)
        width = (high - low) / self.bins or 1.0
        counts = [0] * self.bins
        for v in values:  #: LINE
            counts[min(int((v - low) / width), self.bins - 1)] += 1  #: LINE
        return {"low": low, "high": high, "counts": counts}

    def run(self):
        self.fresh.wait()
        while True:
            parts = [self.histogram(v) for v in self.values]
            self.page = json.dumps({"time": time.time(), "losses": self.losses, "weights": parts})


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(x)


class Net(nn.Module):
    def __init__(self, dim=64, layers=2):
        super().__init__()
        self.inp = nn.Linear(10, dim)
        self.blocks = nn.Sequential(*[Block(dim) for _ in range(layers)])
        self.out = nn.Linear(dim, 4)

    def forward(self, x):
        return self.out(self.blocks(self.inp(x)).mean(1))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Net())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    view = None
    g = torch.Generator().manual_seed(3 + rank)
    begin = time.time()
    for step in range(STEPS):
        if step == 30 and rank == 2:
            view = LiveView()
            view.start()  #: LINE
        x = torch.randn(BATCH, 24, 10, generator=g)
        y = x.mean(1)[:, :4].argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if view:
            view.offer(model, loss.item())
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f} {time.time() - begin:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
