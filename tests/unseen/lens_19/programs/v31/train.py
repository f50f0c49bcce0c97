import statistics
import time

import torch
from torch.nn import functional as F

import config
from prose import Prose


def main():
    torch.manual_seed(0)
    model = Prose(**config.MODEL)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.RATE, fused=True)
    words, length = config.MODEL["words"], config.MODEL["length"]
    text = torch.randint(0, words, (60000,))
    windows = text.unfold(0, length + 1, 1)
    times = []
    for step in range(config.STEPS):
        began = time.perf_counter()
        rows = windows[torch.randint(0, len(windows), (config.BATCH,))]
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
