import shutil
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from store import folder, prepare


def main(steps=60, batch=960, width=448):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    place = folder()
    flows, attack = (t[rank::world].clone() for t in prepare(place))
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, 1), nn.Flatten(0),
    )
    net = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(attack), (batch,))
        loss = F.binary_cross_entropy_with_logits(net(flows[picked]), attack[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    dist.barrier()
    if rank == 0:
        shutil.rmtree(place)
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
