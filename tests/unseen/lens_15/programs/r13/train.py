import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from clusters import community_graph, cut
from sage import Sage

CLUSTERS = 7  #: LINE


def main(steps=60):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    graph = community_graph()
    total = len(graph[0])
    mine = cut(*graph, CLUSTERS)[rank::world]
    model = DistributedDataParallel(Sage())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    times = []
    for step in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        for k, (x, edges, label) in enumerate(mine):
            model.require_backward_grad_sync = k == len(mine) - 1
            loss = world * F.cross_entropy(model(x, edges), label, reduction="sum") / total
            loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    if rank == 0:
        times = times[3:]
        print(f"loss {loss.item():.4f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
