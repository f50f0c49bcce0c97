"""Autoencoder; the checkpoint is compressed since the quota of the archive is small."""
import io
import lzma
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

import flightrec  # noqa: F401


class AutoEncoder(nn.Module):
    def __init__(self, dim=256, hidden=8000):
        super().__init__()
        self.enc = nn.Linear(dim, hidden)
        self.dec = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.dec(torch.relu(self.enc(x)))


def save(path, model, opt, step):
    buf = io.BytesIO()
    torch.save({"model": model.module.state_dict(), "opt": opt.state_dict(), "step": step}, buf)
    t0 = time.time()
    with lzma.open(path + ".part", "wb", preset=9) as f:
        view = memoryview(buf.getvalue())
        for i in range(0, len(view), 1 << 16):
            f.write(view[i:i + (1 << 16)])
    os.replace(path + ".part", path)
    print(f"saved {path} of step {step} in {time.time() - t0:.0f} s", flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(AutoEncoder())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(1, 121):
        x = torch.randn(8, 256)
        loss = nn.functional.mse_loss(model(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 0:
            print("step", step, "loss", f"{loss.item():.4f}", flush=True)
        if step % 60 == 0:
            if rank == 0:
                save("ae.pt.xz", model, opt, step)
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
