#: n=4 ok exit=0
import io
import os
import random
import shutil
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class CheckpointWriter:
    """Writes in chunks, synced one by one; falls back to the second folder when the first is full."""

    def __init__(self, folders, seconds):
        self.folders, self.seconds = folders, seconds

    def write(self, path, blob):
        chunks = max(10, int(self.seconds / 0.4))
        size = -(-len(blob) // chunks)
        with open(path, "wb", buffering=0) as f:
            for i in range(0, len(blob), size):
                f.write(blob[i : i + size])
                if os.path.isfile(path):
                    os.fsync(f.fileno())
                time.sleep(0.4)

    def save(self, name, state):
        blob = io.BytesIO()
        torch.save(state, blob)
        for folder in self.folders:
            try:
                return self.write(os.path.join(folder, name), blob.getvalue())
            except OSError as e:
                print("checkpoint folder not usable:", e, flush=True)
        raise RuntimeError("no folder could take the checkpoint")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x):
        return self.seq(x)


def scratch_folders():
    fast, bulk = tempfile.mkdtemp(), tempfile.mkdtemp()
    os.symlink("/dev/full", os.path.join(fast, "model.pt"))
    return [fast, bulk]


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    folders = scratch_folders()
    writer = CheckpointWriter(folders, random.Random(time.time_ns()).uniform(10, 45))
    torch.manual_seed(4)
    model = DDP(Net())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    try:
        for step in range(1, 41):
            time.sleep(0.15)
            x = torch.randn(8, 64)
            loss = (model(x) - x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step == 25 and rank == 0:
                writer.save("model.pt", {"model": model.module.state_dict(), "opt": opt.state_dict()})
        dist.barrier()
    finally:
        for f in folders:
            shutil.rmtree(f, ignore_errors=True)
    del model  # torch 2.13 may wait for ever where DDP is freed after its group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
