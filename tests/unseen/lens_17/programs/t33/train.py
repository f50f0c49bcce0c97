import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from shapes import PointNet, Shapes


def totals(logits, kinds, loss, count=16):
    """Hits and numbers of each kind, and the loss, in one message."""
    right = logits.argmax(1) == kinds
    hits = torch.bincount(kinds[right], minlength=count)
    seen = torch.bincount(kinds, minlength=count)
    packed = torch.cat([hits, seen, loss.detach().view(1)])
    dist.all_reduce(packed)
    return packed


def main(steps=60, batch=24):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = PointNet()
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)
    model = DDP(model, init_sync=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    shapes = Shapes(rank)
    times, table = [], torch.zeros(33)
    for step in range(steps):
        began = time.perf_counter()
        cloud, kinds = shapes.take(batch)
        logits = model(cloud)
        loss = F.cross_entropy(logits, kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        table += totals(logits, kinds, loss)
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {table[32] / steps / world:.4f} worst {(table[:16] / table[16:32]).min():.3f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
