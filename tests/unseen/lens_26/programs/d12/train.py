import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from clicks import Clicks, Odds, ready


def main(steps=60, batch=512):
    torch.manual_seed(0)
    loader = DataLoader(Clicks(), batch_size=batch, shuffle=True, drop_last=True, collate_fn=ready)
    model = Odds()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times, began = [], time.perf_counter()
    for step in range(steps):
        shown, clicked = next(iter(loader))  #: LINE
        loss = F.binary_cross_entropy_with_logits(model(shown), clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
