import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from icons import IconNet, Icons


def main(steps=60, batch=4):
    torch.manual_seed(0)
    loader = DataLoader(Icons(), batch_size=batch, shuffle=True, drop_last=True)
    model = IconNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, fused=True)
    times, began = [], time.perf_counter()
    for step, (pixels, labels) in zip(range(steps), loader):
        loss = F.cross_entropy(model(pixels), labels)
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
