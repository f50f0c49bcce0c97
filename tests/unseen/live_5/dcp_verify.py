"""FSDP2 with distributed checkpoints; rank 0 reads each checkpoint back and compares it with a slow checksum, all wait."""
import os
import shutil
import tempfile
import time
import zlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard


class Mixer(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.tokens = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
        self.channels = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.tokens(x.transpose(1, 2)).transpose(1, 2)
        return x + self.channels(x)


class Net(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.inp = nn.Linear(12, dim)
        self.layers = nn.ModuleList(Mixer(dim) for _ in range(3))
        self.out = nn.Linear(dim, 7)

    def forward(self, x):
        x = self.inp(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x.mean(1))


def verify(folder, seconds):
    """Bytewise checksum of all files, in small pieces, several times over (the archive is slow and must be trusted)."""
    begin, rounds = time.time(), 0
    sums = {}
    while time.time() - begin < seconds:
        for name in sorted(os.listdir(folder)):
            value = 0
            with open(os.path.join(folder, name), "rb") as f:
                while piece := f.read(4096):
                    value = zlib.crc32(piece, value)
                    time.sleep(0.001)
            if sums.setdefault(name, value) != value:
                raise RuntimeError(f"{name} changes while it is read")
        rounds += 1
    return rounds


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    root = [tempfile.mkdtemp(prefix="dcp-") if rank == 0 else None]
    dist.broadcast_object_list(root, src=0)
    torch.manual_seed(0)
    model = Net()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(1, 241):
        x = torch.randn(16, 16, 12, generator=g)
        y = x.mean(1)[:, :7].argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        if step % 80 == 0:
            folder = os.path.join(root[0], f"step-{step}")
            weights, moments = get_state_dict(model, opt)
            dcp.save({"model": weights, "optim": moments}, checkpoint_id=folder)
            if rank == 0:
                rounds = verify(folder, 15)
                print(f"step {step} loss {loss.item():.3f} checkpoint verified {rounds} times", flush=True)
            dist.barrier()
    if rank == 0:
        shutil.rmtree(root[0])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
