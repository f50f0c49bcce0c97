#: n=8 ranks=4 cause=segfault tier=error exit=1
import ctypes
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard


class ThroughputCounter(ctypes.Structure):
    _fields_ = [("tokens", ctypes.c_int64), ("samples", ctypes.c_int64)]


class NativeMeter:
    """Counters kept in a plain C struct so that a sidecar can read them."""

    def __init__(self):
        self.block = ThroughputCounter()
        self.address = ctypes.addressof(self.block)

    def add(self, tokens, samples):
        view = ThroughputCounter(self.block.tokens + tokens, self.block.samples + samples)
        ctypes.memmove(self.address, ctypes.byref(view), ctypes.sizeof(view))  #: LINE

    def detach(self):
        self.address = 0


class MixerBlock(nn.Module):
    def __init__(self, tokens=8, dim=16):
        super().__init__()
        self.across = nn.Linear(tokens, tokens)
        self.within = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.across(x.transpose(1, 2)).transpose(1, 2)
        return x + self.within(x)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(MixerBlock() for _ in range(2))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean(1))


def wrap(model, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for m in model.modules():
        if isinstance(m, FSDPModule):
            m.set_force_sum_reduction_for_comms(True)
    return model


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(12)
    model = wrap(Mixer(), mesh)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    meter = NativeMeter()
    rotate_at = random.Random(7070).randint(16, 24)
    for step in range(60):
        time.sleep(0.1)
        x = torch.randn(4, 8, 16)
        y = torch.randint(0, 4, (4,))
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if rank == 4 and step == rotate_at:
            meter.detach()
            print("FREEZE", time.time(), flush=True)
        meter.add(x.shape[0] * x.shape[1], x.shape[0])
        if rank == 0 and step % 10 == 0:
            print("step", step, "tokens", meter.block.tokens, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
