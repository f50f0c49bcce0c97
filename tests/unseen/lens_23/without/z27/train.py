import statistics
import time

import torch
from torch.nn import functional as F

from guild import Chain


def plans(count=2000, tools=300, longest=48):
    start, step = torch.randint(0, tools, (count, 1)), torch.randint(1, 6, (count, 1))
    return (start + step * torch.arange(longest)) % tools


def main(steps=60, batch=12, tools=300):
    torch.manual_seed(0)
    known = plans()
    model = Chain(tools)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times, began = [], time.perf_counter()
    for step in range(steps):
        plan = known[torch.randint(0, len(known), (batch,))]
        blot = torch.rand(plan.shape) < 0.3
        scores, balance = model(plan.masked_fill(blot, tools))
        loss = F.cross_entropy(scores.flatten(0, 1), plan.masked_fill(~blot, -100).flatten()) + 0.01 * balance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
