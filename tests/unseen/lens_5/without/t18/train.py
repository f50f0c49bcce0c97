"""Land use by pixel in twelve groups: every class of a group keeps a prototype (mean feature), pixels are pulled towards theirs."""

import statistics
import time

import torch
from torch import nn

from prototypes import Prototypes

CLASSES = 120


def scenes(step, count=8, side=64):
    rng = torch.Generator().manual_seed(step)
    label = torch.randint(0, CLASSES, (count, side // 8, side // 8), generator=rng).repeat_interleave(8, 1).repeat_interleave(8, 2)
    code = torch.randn(CLASSES, 6, generator=torch.Generator().manual_seed(1))
    picture = code[label].permute(0, 3, 1, 2) + 0.4 * torch.randn(count, 6, side, side, generator=rng)
    return picture, label


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(6, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 16, 3, padding=1))
    head = nn.Conv2d(16, CLASSES // 10, 1)
    prototypes = Prototypes(CLASSES, 16)
    optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=3e-3)
    took = []
    for step in range(60):
        t0 = time.perf_counter()
        picture, label = scenes(step)
        features = net(picture)
        pixels = features.permute(0, 2, 3, 1).reshape(-1, 16)
        flat = label.flatten()
        loss = nn.functional.cross_entropy(head(features), label // 10) + 0.1 * prototypes.pull(pixels, flat)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        prototypes.update(pixels.detach(), flat)
        took.append(time.perf_counter() - t0)
    print(f"loss {loss.item():.3f}")
    print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")


if __name__ == "__main__":
    main()
