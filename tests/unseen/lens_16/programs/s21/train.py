import statistics
import time

import torch
from torch.nn import functional as F

from encoder import Encoder


def reviews(count=2000, length=64, words=3000):
    g = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, words, (count, length), generator=g)
    return tokens, (tokens < words // 2).sum(1).sub(length // 2).div(3).clamp(-2, 2).long() + 2


def main(steps=60, batch=12):
    torch.manual_seed(0)
    tokens, stars = reviews()
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        rows = torch.randint(0, len(tokens), (batch,))
        loss = F.cross_entropy(model(tokens[rows]), stars[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
