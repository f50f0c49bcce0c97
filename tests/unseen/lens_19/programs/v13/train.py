import statistics
import time

import torch
import torch.distributed as dist

from game import Players, learn


def main(steps=60, batch=448):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    players = Players()
    optimizer = torch.optim.Adam(players.parameters(), lr=1e-3, fused=True)
    g = torch.Generator().manual_seed(rank)
    positions = torch.randint(-1, 2, (5000, 240), generator=g).float()
    results = positions[:, :9].sum(1).sign()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 5000, (batch,))
        optimizer.zero_grad()
        one, two = learn(players, positions[picked], results[picked])
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(f"loss {one.item():.5f} {two.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
