import statistics
import tempfile
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from activity import ActivityNet
from sensors import Windows, record


def batches(loader):
    while True:
        yield from loader


def main(steps=60, batch=22):
    torch.manual_seed(0)
    model = ActivityNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        record(folder)
        source = batches(DataLoader(Windows(folder), batch, shuffle=True, drop_last=True))
        for step in range(steps):
            began = time.perf_counter()
            x, activity = next(source)
            loss = F.cross_entropy(model(x), activity)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
