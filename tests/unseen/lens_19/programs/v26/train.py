import statistics
import time

import torch
from torch.nn import functional as F

from heads import Moves


def main(steps=60, batch=16, moves=400):
    torch.manual_seed(0)
    model = Moves(moves)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    games = torch.randint(0, moves, (3000, 41))
    games[:, 1::2] = games[:, :-1:2] * 3 % moves
    times = []
    for step in range(steps):
        began = time.perf_counter()
        rows = games[torch.randint(0, 3000, (batch,))]
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
