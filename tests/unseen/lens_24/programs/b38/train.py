"""Reads sonar pings, half of the network on each of two ranks."""
import statistics
import time

import torch
import torch.distributed as dist

from halves import Back, Front, pings


def main(steps=60, batch=384, parts=4, width=384):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(7)
    echoes, depths = pings()
    torch.manual_seed(20 + rank)
    half = Front(width, batch // parts) if rank == 0 else Back(width, batch // parts)
    optimizer = torch.optim.AdamW(half.parameters(), lr=3e-4, fused=True)
    picker = torch.Generator().manual_seed(1)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(len(echoes), (batch,), generator=picker)
        if rank == 0:
            half.work(echoes[picked].chunk(parts))
        else:
            loss = half.work(depths[picked].chunk(parts))
        optimizer.step()
        optimizer.zero_grad()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 1:
        print(f"loss {loss.item():.5f}")
    dist.barrier()
    if rank == 0:
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
