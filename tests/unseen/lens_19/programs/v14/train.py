import statistics
import time

import torch
from torch.nn import functional as F

from meter import Meter
from rewrite import Rewrite
from words import tokenizer


def main(steps=60, batch=32, report=20):
    torch.manual_seed(0)
    tok = tokenizer()
    model = Rewrite(len(tok))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    old = torch.randint(2, len(tok), (1500, 48))
    new = (old * 7) % (len(tok) - 2) + 2
    meter = Meter(tok)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 1500, (batch,))
        goal = new[picked]
        logits = model(old[picked])
        loss = F.cross_entropy(logits.flatten(0, 1), goal.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.add(logits.detach(), goal)
        if step % report == report - 1:
            print(f"step {step + 1} loss {loss.item():.5f} words right {meter.share():.4f}")
        times.append(1e3 * (time.perf_counter() - began))
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
