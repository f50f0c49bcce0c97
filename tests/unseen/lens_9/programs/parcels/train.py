"""Fields, woods and houses on aerial pictures: a small net on patches."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator

from scores import PixelScore


class PatchNet(nn.Module):
    """Works on patches of 4 x 4 pixels, and blows the answer up again."""

    def __init__(self, classes=5, w=24):
        super().__init__()
        self.stem = nn.Conv2d(4, w, 4, 4)
        self.mid = nn.Sequential(nn.GroupNorm(4, w), nn.GELU(), nn.Conv2d(w, w, 3, padding=1), nn.GELU(), nn.Conv2d(w, w, 3, padding=1), nn.GELU())
        self.out = nn.Conv2d(w, classes, 1)

    def forward(self, x):
        x = self.stem(x)
        return F.interpolate(self.out(x + self.mid(x)), scale_factor=4)


class Aerial(torch.utils.data.Dataset):
    def __init__(self, n, side=144):
        g = torch.Generator().manual_seed(6)
        self.x = torch.rand(48, 4, side, side, generator=g)
        self.y = (self.x.mean(1) * 9.99).long() % 5
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.x[i % 48], self.y[i % 48]


def train(acc, model, opt, loader, steps):
    score, ticks = PixelScore(), []
    for step, (x, y) in zip(range(steps), loader):
        with acc.accumulate(model):
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            acc.backward(loss)
            opt.step()
            opt.zero_grad()
        preds, refs = acc.gather_for_metrics((logits.detach().argmax(1), y))
        score.add_batch(preds, refs)
        ticks.append(time.perf_counter())
    acc.print(score.compute())
    return ticks


if __name__ == "__main__":
    torch.manual_seed(0)
    acc = Accelerator(cpu=True)
    model = PatchNet()
    parts = acc.prepare(model, torch.optim.AdamW(model.parameters(), 2e-3), torch.utils.data.DataLoader(Aerial(1000), batch_size=12))
    ticks = torch.tensor(train(acc, *parts, steps=62), dtype=torch.float64)
    ms = (ticks[1:] - ticks[:-1])[3:] * 1e3
    acc.print(f"{ms.median().item():.2f} ms/step median, {ms.mean().item():.2f} ms/step")
    acc.end_training()
