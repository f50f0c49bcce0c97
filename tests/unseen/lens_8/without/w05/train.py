"""DDP training of an autoencoder; rank 0 draws the current reconstructions."""
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from pace import Pace
from preview import write_preview

STEPS = 60
BATCH = 400


def build():
    return nn.Sequential(nn.Linear(1024, 640), nn.ReLU(), nn.Linear(640, 64), nn.ReLU(),
                         nn.Linear(64, 640), nn.ReLU(), nn.Linear(640, 1024))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(build())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    basis = torch.randn(48, 1024)
    generator = torch.Generator().manual_seed(50 + rank)
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        for step in range(STEPS):
            images = torch.randn(BATCH, 48, generator=generator) @ basis
            rebuilt = model(images)
            loss = F.mse_loss(rebuilt, images)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            pace.tick()
        if rank == 0:
            write_preview(folder, images, rebuilt.detach())
    if rank == 0:
        print(f"final loss {loss.item():.4f}")
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
