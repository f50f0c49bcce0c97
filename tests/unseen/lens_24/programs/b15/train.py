import statistics
import time

import torch
from torch.nn import functional as F

from errors import character_error_rate
from typewriter import Reader, Sheets


def main(steps=60, size=24):
    torch.manual_seed(0)
    sheets, model = Sheets(), Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    rates, times = [], []
    for step in range(steps):
        began = time.perf_counter()
        cells, text = sheets.batch(size)
        scores = model(cells)
        loss = F.cross_entropy(scores.flatten(0, 1), text.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rates.append(character_error_rate(scores, text))  #: LINE
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}, wrong letters {rates[-1]:.3f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
