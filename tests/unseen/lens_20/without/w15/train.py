import itertools
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from sagas import Sagas, Teller


def main(steps=60, batch=24):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    sagas = Sagas(rank, dist.get_world_size(), batch)
    torch.manual_seed(0)
    model = DistributedDataParallel(Teller(), broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    batches = itertools.chain.from_iterable(sagas.shuffled(epoch) for epoch in itertools.count())
    times = []
    for step in range(steps):
        began = time.perf_counter()
        text, place = next(batches)
        loss = F.cross_entropy(model(text), place)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
