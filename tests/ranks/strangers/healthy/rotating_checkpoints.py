#: n=4 ok set=3
import os
import shutil
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


class Rotation:
    """Keeps the last few checkpoints; one full archive copy is throttled on purpose."""

    def __init__(self, keep=2):
        self.root = tempfile.mkdtemp(prefix="ckpt_")
        self.keep, self.names = keep, []

    def save(self, step, state):
        path = os.path.join(self.root, f"step{step}.pt")
        torch.save(state, path)
        self.names.append(path)
        while len(self.names) > self.keep:
            os.remove(self.names.pop(0))
        return path

    def archive(self, path, chunks=90):
        target = path + ".archive"
        with open(target, "wb") as out:
            for _ in range(chunks):
                with open(path, "rb") as src:
                    out.write(src.read())
                out.flush()
                os.fsync(out.fileno())
                time.sleep(0.2)

    def clean(self):
        shutil.rmtree(self.root, ignore_errors=True)


def sync_grads(model):
    works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
    for w in works:
        w.wait()
    for p in model.parameters():
        p.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    rotation = Rotation()
    gen = torch.Generator().manual_seed(rank)
    try:
        for step in range(1, 46):
            time.sleep(0.15)
            x = torch.randn(4, 8, generator=gen)
            loss = model(x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            sync_grads(model)
            opt.step()
            if rank == 1 and step % 5 == 0:
                path = rotation.save(step, model.state_dict())
                if step == 25:
                    print("FREEZE", time.time(), flush=True)
                    rotation.archive(path)
            if rank == 0 and step % 5 == 0:
                print("step", step, loss.item(), flush=True)
        dist.barrier()
    finally:
        rotation.clean()
    dist.destroy_process_group()


main()
