import argparse
import contextlib
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from engines import EngineWear, flights


def micro_batches(x, y, size, made):
    while True:
        order = torch.randperm(len(x), generator=made)
        for picked in order.split(size):
            yield x[picked], y[picked]


def train(args):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(EngineWear(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    batches = micro_batches(*flights(rank), args.micro_batch, torch.Generator().manual_seed(rank))
    times = []
    for step in range(args.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        for part in range(args.accumulate):
            x, y = next(batches)
            last = part == args.accumulate - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = F.huber_loss(model(x), y) / args.accumulate
                loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    if rank == 0:
        kept = times[3:]
        print(f"last loss {args.accumulate * loss.item():.6f}")
        print(f"{statistics.median(kept):.2f} ms/step median, {statistics.mean(kept):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--micro-batch", type=int, default=32)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    train(parser.parse_args())
