import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from sasrec import SASRec


def purchases(people=2400, items=1500, length=41):
    g = torch.Generator().manual_seed(11)
    start = torch.randint(0, items, (people, 1), generator=g)
    stride = torch.randint(1, 9, (people, 1), generator=g)
    return (start + stride * torch.arange(length)) % items


def main(steps=60, batch=32):
    torch.manual_seed(0)
    loader = DataLoader(purchases(), batch, shuffle=True, drop_last=True)
    model = SASRec()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times, hits = [], 0
    for step, rows in zip(range(steps), loader):
        began = time.perf_counter()
        history, bought = rows[:, :-1], rows[:, -1]
        logits = model(history)
        loss = F.cross_entropy(logits, bought)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits += (logits.detach().argmax(1) == bought).sum()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}, {int(hits)} hits")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
