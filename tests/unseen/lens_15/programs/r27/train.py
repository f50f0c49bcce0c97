import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from convnext import ConvNeXt
from guards import install


def pictures(count=1600):
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (count,), generator=g)
    base = torch.randn(10, 3, 32, 32, generator=g)
    return TensorDataset(base[labels] + torch.randn(count, 3, 32, 32, generator=g), labels)


def main(steps=60):
    torch.manual_seed(0)
    loader = DataLoader(pictures(), batch_size=24, shuffle=True, drop_last=True)
    model = install(ConvNeXt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    times, start = [], time.perf_counter()
    for step, (images, labels) in enumerate(loader):
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        end = time.perf_counter()
        times.append(1e3 * (end - start))
        start = end
        if step + 1 == steps:
            break
    times = times[3:]
    print(f"loss {loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
