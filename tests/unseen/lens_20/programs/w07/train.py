import statistics
import time

import torch
from torch.nn import functional as F

from chords import Harmony, pieces


def train(model, optimizer, data, steps, batch):
    music, moods = data
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(music), (batch,))
        loss = F.cross_entropy(model(music[picked]), moods[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield 1e3 * (time.perf_counter() - began), loss.detach()


def main(steps=60, batch=64):
    torch.manual_seed(0)
    model = Harmony()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, foreach=True)
    times, losses = zip(*train(model, optimizer, pieces(), steps, batch))
    print(f"loss {losses[-1].item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
