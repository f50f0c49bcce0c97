import statistics
import time

import torch
from torch.nn import functional as F

from composer import Composer
from melodies import Melodies


def main(steps=60, batch=12):
    torch.manual_seed(0)
    melodies, model = Melodies(), Composer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        notes, following = melodies.batch(batch)
        loss = F.cross_entropy(model(notes).flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
