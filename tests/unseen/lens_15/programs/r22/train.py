import statistics
import tempfile
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from detector import Detector
from scans import Slices, write


def endless(loader):
    while True:
        yield from loader


def train(folder, steps=60, batch_size=10):
    write(folder)
    loader = DataLoader(Slices(folder), batch_size=batch_size, shuffle=True, drop_last=True)
    model = Detector()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = endless(loader)
    times = []
    for step in range(steps):
        start = time.perf_counter()
        images, labels = next(batches)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
        if step % 15 == 14:
            print(f"step {step + 1}: loss {loss.item():.4f}")
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        train(folder)
