import statistics
import time

import torch

from faces import Portraits, losses_of, paint

WEIGHTS = {"age": 1.0, "mood": 0.5}


def train_step(model, optimizer, pictures, wanted):
    losses = losses_of(model(pictures), wanted)
    optimizer.zero_grad()
    sum(WEIGHTS[name] * loss for name, loss in losses.items()).backward()
    optimizer.step()
    return losses


def main(steps=60, batch=28):
    torch.manual_seed(0)
    pictures, wanted = paint()
    model = Portraits()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    order, times = torch.randperm(len(pictures)), []
    for step in range(steps):
        began = time.perf_counter()
        at = step * batch % len(order)
        picked = order[at : at + batch]
        losses = train_step(model, optimizer, pictures[picked], {name: value[picked] for name, value in wanted.items()})
        times.append(1e3 * (time.perf_counter() - began))
    print(", ".join(f"{name} {loss.item():.6f}" for name, loss in losses.items()))
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
