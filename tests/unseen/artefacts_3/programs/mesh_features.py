"""Point features are made by a pool of processes before each epoch."""
import math
import multiprocessing as mp
import time

import torch
import torch.distributed as dist
import torch.nn as nn

import flightrec  # noqa: F401


def features(job):
    seed, points = job
    g = torch.Generator().manual_seed(seed)
    p = torch.randn(points, 3, generator=g)
    d = torch.cdist(p, p)
    return torch.stack([d.mean(1), d.amax(1), d.topk(4, largest=False).values.sum(1)], 1).mean(0)


def make_epoch(pool, rank, epoch, n=60):
    jobs = [(1000 * epoch + i, 900 + 100 * (i % 5)) for i in range(n)]
    return torch.stack(pool.map(features, jobs, chunksize=1))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    pool = mp.get_context("fork").Pool(2)

    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(1000):
        t0 = time.time()
        x = make_epoch(pool, rank, epoch)
        y = (x.sum(1, keepdim=True) / math.pi).cos()
        for _ in range(10):
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            for p in net.parameters():
                dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
                p.grad /= dist.get_world_size()
            opt.step()
        if rank == 0 and epoch % 5 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} ({time.time() - t0:.1f} s)", flush=True)
    pool.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
