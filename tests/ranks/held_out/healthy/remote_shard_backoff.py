#: n=3 ok set=3
"""FSDP2 training; fetching a remote shard fails a few times and is retried with backoff."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class TransientError(IOError):
    pass


class Bucket:
    def __init__(self, rank):
        self.rank, self.failures = rank, 4
        self.gen = torch.Generator().manual_seed(rank)

    def get(self, key):
        time.sleep(0.15)
        if self.rank == 1 and key == 20 and self.failures:
            if self.failures == 4:
                print("FREEZE", time.time(), flush=True)
            self.failures -= 1
            raise TransientError(f"503 for shard {key}")
        return torch.randn(4, 9, generator=self.gen)


def with_backoff(fn, key, base=1.5, tries=6):
    for attempt in range(tries):
        try:
            return fn(key)
        except TransientError as err:
            pause = base * 2 ** attempt
            print(f"{err}; retry in {pause:.1f}s", flush=True)
            time.sleep(pause)
    raise RuntimeError(f"shard {key} is gone")


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(9, 4)
        self.dec = nn.Linear(4, 9)

    def forward(self, x):
        return self.dec(torch.tanh(self.enc(x)))


def build(mesh):
    torch.manual_seed(0)
    model = AutoEncoder()
    fully_shard(model.enc, mesh=mesh)
    fully_shard(model.dec, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    model = build(init_device_mesh("cpu", (dist.get_world_size(),)))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    bucket = Bucket(rank)
    for step in range(40):
        x = with_backoff(bucket.get, step)
        loss = (model(x) - x).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if rank == 0 and step % 5 == 0:
            print("step", step, "loss", round(loss.item(), 4), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
