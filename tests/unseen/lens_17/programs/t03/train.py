import random
import statistics
import time

import torch
from torch.nn import functional as F

from facts import Facts, Rotate


def main(steps=60, batch=320, false=48):
    torch.manual_seed(0)
    random.seed(0)
    facts, model = Facts(), Rotate()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    times, hits = [], 0
    for step in range(steps):
        began = time.perf_counter()
        triples, wrong = facts.draw(batch, false)
        scores = model(triples, wrong)
        loss = F.softplus(-scores[:, 0]).mean() + F.softplus(scores[:, 1:]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # a few false ones are true by chance
        for h, r, _ in random.sample(triples.tolist(), 16):
            hits += sum(t in facts.known[(h, r)] for t in wrong[0, :8].tolist())
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}, {hits} by chance")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
