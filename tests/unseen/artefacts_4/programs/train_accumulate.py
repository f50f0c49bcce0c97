"""Large effective batches: many local micro-batches, then one gradient exchange."""
import argparse
import time

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def residual_net(dim=256, depth=6):
    class Res(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(),
                                      nn.Linear(4 * dim, dim))

        def forward(self, x):
            return x + self.body(x)

    return nn.Sequential(nn.Linear(64, dim), *(Res() for _ in range(depth)), nn.Linear(dim, 8))


def micro_batch(generator, rows):
    x = torch.randn(rows, 64, generator=generator)
    return x, x[:, :8].abs().argmax(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=2)
    ap.add_argument("--accumulate", type=int, default=512)
    ap.add_argument("--rows", type=int, default=256)
    args = ap.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(residual_net())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    g = torch.Generator().manual_seed(rank)

    for step in range(args.steps):
        t0 = time.time()
        with model.no_sync():
            for _ in range(args.accumulate - 1):
                x, y = micro_batch(g, args.rows)
                (loss_fn(model(x), y) / args.accumulate).backward()
        x, y = micro_batch(g, args.rows)
        loss = loss_fn(model(x), y) / args.accumulate
        loss.backward()
        opt.step()
        opt.zero_grad()
        mean = loss.detach() * args.accumulate
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item() / world:.4f} in {time.time() - t0:.1f} s", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
