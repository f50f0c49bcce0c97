import statistics
import time

import torch
from torch.nn import functional as F

from gcn import GCN
from sampling import Citations


def main(steps=60):
    torch.manual_seed(0)
    graph, model = Citations(), GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=5e-4)
    times, hits = [], torch.zeros(())
    for step in range(steps):
        start = time.perf_counter()
        x, edges, seeds, label = graph.sample()
        out = model(x, edges)[seeds]
        loss = F.cross_entropy(out, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits += (out.detach().argmax(1) == label).float().mean()
        times.append(1e3 * (time.perf_counter() - start))
    times = times[3:]
    print(f"loss {loss.item():.3f}, accuracy {hits.item() / steps:.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
