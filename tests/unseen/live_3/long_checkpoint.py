"""DDP; rank 0 writes a large checkpoint to a slow disk while the others wait in a barrier."""
import io
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class SlowDisk:
    def __init__(self, path, rate):
        self.path, self.rate = path, rate

    def write(self, blob):
        with open(self.path, "wb") as f:
            for i in range(0, len(blob), self.rate):
                f.write(blob[i:i + self.rate])
                f.flush()
                os.fsync(f.fileno())
                time.sleep(1.0)
        os.unlink(self.path)


def checkpoint(model, opt, step):
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "step": step}, buffer)
    blob = buffer.getvalue()
    path = os.path.join(tempfile.gettempdir(), f"ckpt-{os.getpid()}.pt")
    SlowDisk(path, max(1, len(blob) // 34)).write(blob)
    print(f"checkpoint of step {step}: {len(blob)} bytes", flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(40, 200), nn.ReLU(), nn.Linear(200, 1)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(50):
        g = torch.Generator().manual_seed(step * 3 + rank)
        x = torch.randn(32, 40, generator=g)
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.1)
        if step == 29:
            if rank == 0:
                checkpoint(model, opt, step)
            dist.barrier()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
