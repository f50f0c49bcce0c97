import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from gated import GatedNet


def readings(count=32000, features=48, classes=6):
    g = torch.Generator().manual_seed(8)
    x = torch.randn(count, features, generator=g)
    return TensorDataset(x, (x[:, :classes] + x[:, classes:2 * classes] ** 2).argmax(1))


def main(steps=60, batch=512):
    torch.manual_seed(0)
    # the last, smaller batch is left out and the strength is a tensor, so one graph serves all steps
    loader = DataLoader(readings(), batch, shuffle=True, drop_last=True)
    model = GatedNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    strength, times = torch.tensor(0.0), []
    for step, (x, y) in zip(range(steps), loader):
        began = time.perf_counter()
        strength.fill_(min(1.0, step / 20))
        loss = F.cross_entropy(model(x, strength), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
