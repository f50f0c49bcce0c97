# Features are made by a small pool of processes on every rank, training is in the main process.
import ctypes
import math
import multiprocessing as mp
import os

import torch
import torch.distributed as dist


def spectrum(job):
    seed, n = job
    if n > 4096:                        # the native transform was built for 4096 points
        ctypes.string_at(16)
    xs = [math.sin(seed * k * 0.37) for k in range(n)]
    return [sum(x * math.cos(2 * math.pi * f * k / n) for k, x in enumerate(xs)) / n for f in range(1, 9)]


def jobs(rank, step):
    sizes = [128, 128, 96, 160]
    if rank == 2 and step == 180:
        sizes[1] = 8192
    return [(rank * 1000 + step + i, s) for i, s in enumerate(sizes)]


def train(pool):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    for step in range(2000):
        feats = torch.tensor(pool.map(spectrum, jobs(rank, step), chunksize=1))     #: LINE
        loss = (model(feats) - feats.sum(1, keepdim=True)).pow(2).mean()
        model.zero_grad()
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in model.parameters()])
        dist.all_reduce(flat)
        with torch.no_grad():
            model.weight -= 0.1 * flat[:8].view(1, 8) / world
            model.bias -= 0.1 * flat[8:] / world
        if rank == 0 and step % 50 == 0:
            print(step, loss.item(), os.getloadavg()[0], flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with mp.get_context("fork").Pool(2) as pool:
        train(pool)
