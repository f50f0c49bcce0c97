import statistics
import time

import torch
from torch.nn import functional as F

from guards import guard
from reader import Reader


def main(steps=60, batch=24, length=48, signs=40):
    torch.manual_seed(0)
    pattern = (torch.arange(120000) ** 2 // 7 + torch.randint(0, 3, (120000,))) % signs
    model = guard(Reader(signs, length=length))  #: LINE
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        begins = torch.randint(0, len(pattern) - length - 1, (batch, 1))
        rows = pattern[begins + torch.arange(length + 1)]
        guess = model(rows[:, :-1])
        loss = F.cross_entropy(guess.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
