import time

import torch
import torch.distributed as dist
from stages import Stage

ELEMENTS = 1_500_000


def train_step(stages, x, world):
    for s in stages:
        x = s.forward(x)
    g = torch.ones_like(x)
    handles = []
    for s in reversed(stages):
        g = s.backward(g)
    for s in reversed(stages):
        handles.append(dist.all_reduce(s.grad, async_op=True))  #: LINE
    for h in handles:
        h.wait()
    for s in stages:
        s.grad /= world
        s.update(0.1)
    return x


def main():
    dist.init_process_group("gloo")
    world, rank = dist.get_world_size(), dist.get_rank()
    stages = [Stage(ELEMENTS, 14.0) for _ in range(6)]
    steps = 20
    for step in range(steps):
        if step == 2:
            dist.barrier()
            t0 = time.perf_counter()
        out = train_step(stages, torch.full((16,), float(step)), world)
    t = time.perf_counter() - t0
    if rank == 0:
        print(f"out {out[0]:.3f} {t * 1e3 / (steps - 2):.2f} ms/step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
