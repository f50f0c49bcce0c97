import statistics
import time

import torch

from losses import BalancedCrossEntropy
from unet import UNet, scenes


def main(steps=60, batch=6):
    torch.manual_seed(0)
    images, labels = scenes()
    model, criterion = UNet(), BalancedCrossEntropy()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        rows = torch.randperm(len(images))[:batch]
        loss = criterion(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
