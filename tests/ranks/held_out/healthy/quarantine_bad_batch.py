#: n=8 ok exit=0
import hashlib
import logging
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

log = logging.getLogger("data")


class CorruptRecord(Exception):
    pass


class Molecules:
    def __init__(self, rank):
        self.rank = rank

    def batch(self, step):
        time.sleep(0.14)
        g = torch.Generator().manual_seed(step * 8 + self.rank)
        x = torch.randn(6, 14, generator=g)
        if self.rank == 3 and step == 21:
            raise CorruptRecord(f"record {step * 6} has no bonds")
        return x, x[:, 0]


def fingerprint_shard(seconds):
    end, digest = time.time() + seconds, b""
    while time.time() < end:
        digest = hashlib.sha256(digest * 1000).digest()
    return digest.hex()


class Property(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(14, 28), nn.SiLU(), nn.Linear(28, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def loss_for(model, data, step, seconds):
    try:
        x, y = data.batch(step)
        weight = 1.0
    except CorruptRecord:
        log.exception("quarantine")
        log.warning("shard digest %s", fingerprint_shard(seconds))
        x, y, weight = torch.zeros(6, 14), torch.zeros(6), 0.0
    return weight * (model(x) - y).pow(2).mean()


def main():
    logging.basicConfig(level=logging.INFO)
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(15)
    model = DDP(Property())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Molecules(rank)
    seconds = random.Random(time.time_ns()).uniform(10, 45)
    for step in range(40):
        loss = loss_for(model, data, step, seconds)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print("step", step, loss.item(), flush=True)
    dist.barrier()
    del model  # torch 2.13 may wait for ever where DDP is freed after its group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
