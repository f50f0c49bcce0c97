"""DDP segmentation; tiles are spooled into the job by a downloader, and loader workers pick them up."""
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spool:
    """The downloader makes a named pipe for each tile that is still on its way."""

    def __init__(self, rank, tiles):
        self.folder = tempfile.mkdtemp(prefix=f"spool{rank}_")
        for i in range(tiles):
            path = self.path(i)
            if rank == 1 and i == 131:
                os.mkfifo(path)  # announced, but the download has been given up
                continue
            with open(path, "wb") as f:
                f.write(bytes((i * 7 + k) % 256 for k in range(256)))

    def path(self, i):
        return os.path.join(self.folder, f"{i:05d}.tile")


class Tiles(Dataset):
    def __init__(self, spool, n):
        self.spool, self.n = spool, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(0.01)
        with open(self.spool.path(i), "rb") as f:  #: LINE
            raw = f.read()
        t = torch.tensor(list(raw), dtype=torch.float32).view(1, 16, 16) / 255
        return nn.functional.interpolate(t[None], scale_factor=3)[0]


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(16, 1, 1))

    def forward(self, x):
        return self.net(x)


def main(tiles=400):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    spool = Spool(rank, tiles)
    dist.barrier()
    loader = DataLoader(Tiles(spool, tiles), batch_size=8, num_workers=1, prefetch_factor=2)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(Segmenter())
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    for step, x in enumerate(loader, 1):
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), (x > 0.5).float())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 5 == 0:
            print("step", step, f"{loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
