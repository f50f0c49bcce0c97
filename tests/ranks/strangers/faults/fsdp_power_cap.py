#: n=4 ranks=1 cause=stopped tier=error set=2
"""FSDP2 pre-training on desktop machines overnight. The machines are not
cooled for this, so each rank is duty-cycled when its core gets too hot."""
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

COOLDOWN_FILE = "/run/trainer/cooldown_seconds"
LIMIT_C = 88.0


class Governor:
    """Stops the trainer from outside, works even if Python holds the GIL."""

    def __init__(self, rank):
        self.rank = rank
        self.helpers = []

    def temperature(self, step):
        # stand-in for the hwmon sensor; rank 1 sits next to the power supply
        slope = 1.0 if self.rank == 1 else 0.05
        return 66.0 + slope * step

    def check(self, step):
        if self.helpers or self.temperature(step) < LIMIT_C:
            return
        print("FREEZE", time.time(), flush=True)
        self.helpers.append(self._spawn_pauser(os.getpid()))

    def _spawn_pauser(self, trainer):
        child = os.fork()
        if child:
            return child
        try:
            time.sleep(0.1)
            os.kill(trainer, signal.SIGSTOP)
            with open(COOLDOWN_FILE) as fh:
                pause = float(fh.read())
            time.sleep(pause)
            os.kill(trainer, signal.SIGCONT)
        except OSError as err:
            os.write(sys.stderr.fileno(), f"governor: {err}\n".encode())
            os._exit(1)
        os._exit(0)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, dim=16, depth=2, vocab=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.lm = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = self.emb(ids)
        for block in self.blocks:
            h = block(h)
        return self.lm(h)


def shard(model, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for m in model.modules():
        if isinstance(m, FSDPModule):
            m.set_force_sum_reduction_for_comms(True)
    return model


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = shard(Net(), init_device_mesh("cpu", (world,)))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    gen = torch.Generator().manual_seed(rank)
    governor = Governor(rank)
    for step in range(400):
        time.sleep(0.15)
        ids = torch.randint(32, (4, 12), generator=gen)
        logits = model(ids)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        governor.check(step)
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
