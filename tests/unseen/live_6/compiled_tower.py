# A small tower under torch.compile; the kernels of a job are kept in a folder of its own.
import os
import tempfile
import time

os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(tempfile.gettempdir(), f"kernels-{os.getppid()}")

import torch
import torch.distributed as dist
import torch.nn as nn


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(300, 48)
        self.layers = nn.ModuleList(nn.Linear(48, 48) for _ in range(2))
        self.out = nn.Linear(48, 300)

    def forward(self, ids):
        x = self.emb(ids)
        for l in self.layers:
            x = x + torch.nn.functional.gelu(l(x)) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.out(x)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    tower = Tower()
    fast = torch.compile(tower, dynamic=False)
    opt = torch.optim.Adam(tower.parameters(), 1e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(300):
        ids = torch.randint(0, 300, (8, 25), generator=g)
        t = time.time()
        loss = nn.functional.cross_entropy(fast(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        for p in tower.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if time.time() - t > 2:
            print(f"rank {rank} step {step} took {time.time() - t:.1f} s", flush=True)
    if rank == 0:
        print(f"last loss {loss.item():.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
