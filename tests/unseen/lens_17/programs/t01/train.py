import statistics
import time

import torch
from torch.nn import functional as F

from anchors import grid, match
from detector import Detector, scenes


def main(steps=60, batch=12, objects=8):
    torch.manual_seed(0)
    model, anchors = Detector(), grid()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(1)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        pictures, boxes, kinds = scenes(batch, objects, g)
        wanted, aims = match(boxes, kinds, anchors)
        logits, moves = model(pictures)
        near = (wanted > 0).float()
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        loss = loss + 0.01 * ((moves - aims).abs().sum(2) * near).sum() / near.sum().clamp(min=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
