import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tunes import Tunes


def compose(count=200000, notes=128):
    made = torch.Generator().manual_seed(3)
    moves = torch.randint(-4, 5, (count,), generator=made)
    return (60 + moves.cumsum(0)) % notes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=6)
    parser.add_argument("--length", type=int, default=64)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    music = compose()
    model = DistributedDataParallel(Tunes(), gradient_as_bucket_view=True)  #: LINE
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    made = torch.Generator().manual_seed(100 + rank)
    places = torch.arange(args.length + 1)
    times, began = [], time.perf_counter()
    for step in range(args.steps):
        starts = torch.randint(0, len(music) - args.length - 1, (args.batch, 1), generator=made)
        piece = music[starts + places]
        loss = model(piece[:, :-1], piece[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
