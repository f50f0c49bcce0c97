import statistics
import time

import torch
from torch.nn import functional as F

from neighbours import Sampler, citations
from sage import Sage


def main(steps=60, batch=320, first=10, second=8):
    torch.manual_seed(0)
    edges, features, fields = citations()
    sampler, model = Sampler(len(features), edges), Sage()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    g = torch.Generator().manual_seed(1)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        papers = torch.randint(0, len(features), (batch,), generator=g)
        near = sampler.draw(papers, first)
        far = sampler.draw(near.flatten(), second).view(batch, first, second)
        logits = model(features[papers], features[near], features[far])
        loss = F.cross_entropy(logits, fields[papers])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
