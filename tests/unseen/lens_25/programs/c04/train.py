import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from vines import FEATURES, Wines, cellar


class Fourier(nn.Module):
    """Sines of random mixtures, so that the net can learn fast changes."""

    def __init__(self, inputs, waves):
        super().__init__()
        self.register_buffer("mixture", torch.randn(inputs, waves))

    def forward(self, x):
        turned = x @ self.mixture
        return torch.cat([turned.sin(), turned.cos()], -1)


def main(steps=60, batch=384):
    torch.manual_seed(0)
    wines = Wines(cellar())
    loader = DataLoader(wines, batch_size=None, sampler=BatchSampler(RandomSampler(wines), batch, drop_last=True))
    model = nn.Sequential(
        Fourier(len(FEATURES), 128), nn.Linear(256, 896), nn.SiLU(), nn.Linear(896, 896), nn.SiLU(), nn.Linear(896, 1), nn.Flatten(0)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)

    times, began = [], time.perf_counter()
    for step, (features, points) in zip(range(steps), loader):
        loss = F.mse_loss(model(features), points)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
