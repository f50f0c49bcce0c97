import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from ratings import Ratings, Recommender


def whole(batch):
    return batch


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=384)
    parser.add_argument("--lr", type=float, default=1e-3)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(5)
    loader = DataLoader(Ratings(), batch_size=options.batch, shuffle=True, drop_last=True, collate_fn=whole)
    model = DistributedDataParallel(Recommender(), gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr, fused=True)
    torch.manual_seed(50 + rank)

    batches = endless(loader)
    times = []
    for step in range(options.steps):
        began = time.perf_counter()
        people, games, stars = next(batches)
        loss = F.mse_loss(model(people, games), stars)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))

    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
