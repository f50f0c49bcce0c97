"""Vision transformer with auxiliary losses, gradients averaged in one flat buffer; the losses are logged as one vector."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

STEPS, BATCH, LOG_EVERY = 400, 12, 10


class ViT(nn.Module):
    def __init__(self, dim=64, layers=3):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, 4)
        self.pos = nn.Parameter(torch.zeros(1, 16, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, layers)
        self.head, self.depth = nn.Linear(dim, 6), nn.Linear(dim, 1)

    def forward(self, x):
        t = self.enc(self.patch(x).flatten(2).transpose(1, 2) + self.pos)
        return self.head(t.mean(1)), self.depth(t).squeeze(-1), t


class LossTracker:
    """Collects named losses between two log lines and averages them over the ranks."""

    def __init__(self):
        self.sums, self.n = {}, 0

    def add(self, **losses):
        for name, value in losses.items():
            self.sums[name] = self.sums.get(name, 0.0) + value.detach()
        self.n += 1

    def reduce(self):
        names = sorted(self.sums)
        vector = torch.stack([self.sums[k] / self.n for k in names])  #: LINE
        dist.all_reduce(vector)  #: LINE
        vector /= dist.get_world_size()
        self.sums, self.n = {}, 0
        return dict(zip(names, vector.tolist()))


def batch(g, rank, step):
    x = torch.randn(BATCH, 3, 16, 16, generator=g)
    y = (x.mean((1, 2, 3)) * 40).round().long().clamp(-3, 2) + 3
    depth = x.unfold(2, 4, 4).unfold(3, 4, 4).mean((1, 4, 5)).flatten(1)
    has_depth = torch.rand(BATCH, generator=g) < 0.5
    boxes = torch.rand(BATCH, generator=g) < (0.3 if rank == 2 and 231 <= step < 236 else 0.0)
    return x, y, depth, has_depth, boxes


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = ViT()
    params = list(model.parameters())
    opt = torch.optim.AdamW(params, lr=5e-4)
    tracker = LossTracker()
    g = torch.Generator().manual_seed(900 + rank)
    for step in range(1, STEPS + 1):
        x, y, depth, has_depth, boxes = batch(g, rank, step)
        logits, d, tokens = model(x)
        cls = nn.functional.cross_entropy(logits, y)
        dep = ((d - depth).pow(2).mean(1) * has_depth).mean()
        reg = 1e-3 * tokens.pow(2).mean()
        loss = cls + dep + reg
        tracker.add(cls=cls, depth=dep, reg=reg)
        if boxes.any():
            box = 0.1 * (tokens[boxes].amax(1).mean() - 1).abs()
            loss = loss + box
            tracker.add(box=box)  #: LINE
        opt.zero_grad()
        loss.backward()
        flat = _flatten_dense_tensors([p.grad for p in params])
        dist.all_reduce(flat)
        for p, gr in zip(params, _unflatten_dense_tensors(flat / world, [p.grad for p in params])):
            p.grad.copy_(gr)
        opt.step()
        if step % LOG_EVERY == 0:
            means = tracker.reduce()
            if rank == 0:
                print(step, {k: round(v, 4) for k, v in means.items()}, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
