"""1-D heat equation split over ranks; ghost cells are exchanged with batched p2p."""
import argparse
from datetime import timedelta

import torch
import torch.distributed as dist


def get_args():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--cells", type=int, default=64)
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--alpha", type=float, default=0.2)
    ap.add_argument("--report", type=int, default=5)
    return ap.parse_args()


def exchange(u, rank, world):
    """u has one ghost cell at each end."""
    ops = []
    from_left, from_right = torch.zeros(1), torch.zeros(1)
    if rank > 0:
        ops.append(dist.P2POp(dist.isend, u[1:2].clone(), rank - 1))
        ops.append(dist.P2POp(dist.irecv, from_left, rank - 1))
    if rank < world - 2:
        ops.append(dist.P2POp(dist.isend, u[-2:-1].clone(), rank + 1))
        ops.append(dist.P2POp(dist.irecv, from_right, rank + 1))
    if ops:
        for req in dist.batch_isend_irecv(ops):
            req.wait()
    if rank > 0:
        u[0:1] = from_left
    else:
        u[0] = u[1]
    if rank < world - 1:
        u[-1:] = from_right
    else:
        u[-1] = u[-2]


def initial(cells, rank, world):
    n = cells // world
    xs = torch.arange(rank * n, (rank + 1) * n, dtype=torch.float32) / cells
    u = torch.zeros(n + 2)
    u[1:-1] = torch.exp(-((xs - 0.5) ** 2) / 0.01)
    return u


def main():
    args = get_args()
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank, world = dist.get_rank(), dist.get_world_size()
    u = initial(args.cells, rank, world)
    heat0 = u[1:-1].sum()
    dist.all_reduce(heat0)

    for t in range(args.steps):
        exchange(u, rank, world)
        lap = u[:-2] - 2 * u[1:-1] + u[2:]
        u[1:-1] += args.alpha * lap
        if (t + 1) % args.report == 0:
            heat = u[1:-1].sum()
            dist.reduce(heat, dst=0)
            if rank == 0:
                print(f"t={t + 1} heat={heat.item():.5f} (start {heat0.item():.5f})")

    peak = u.max()
    dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    if rank == 0:
        print("peak", round(peak.item(), 4))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
