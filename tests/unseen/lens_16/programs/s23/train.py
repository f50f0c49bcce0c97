import statistics
import time

import torch
from torch.nn import functional as F

from decoder import Decoder


def melodies(count=1200, length=57, notes=400):
    g = torch.Generator().manual_seed(3)
    moves = torch.randint(-2, 4, (count, length), generator=g)
    return (torch.randint(0, notes, (count, 1), generator=g) + moves.cumsum(1)) % notes


def main(steps=60, batch=20):
    torch.manual_seed(0)
    tunes, model = melodies(), Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        rows = tunes[torch.randint(0, len(tunes), (batch,))]
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
