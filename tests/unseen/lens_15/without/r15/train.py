import statistics
import tempfile
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from gallery import Gallery, write
from wide import wide


def train(folder, steps=60):
    write(folder)
    loader = DataLoader(
        Gallery(folder), batch_size=20, shuffle=True, drop_last=True, num_workers=1, persistent_workers=True,
        prefetch_factor=6,
    )
    model = wide()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    times, start = [], time.perf_counter()
    while len(times) < steps:
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            end = time.perf_counter()
            times.append(1e3 * (end - start))
            start = end
            if len(times) == steps:
                break
    times = times[3:]
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        train(folder)
