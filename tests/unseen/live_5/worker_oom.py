"""DDP on images with augmentation workers; the container counts the memory of every process."""
import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

LIMIT_MB = 900  # of a worker, what the container of the data workers allows beyond its start


def resident_mb():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Tiles(Dataset):
    """Cuts tiles out of slides. The decoded slide stays in memory as long as tiles come from it."""

    def __init__(self, count=6000):
        self.count = count
        self.decoded = {}

    def __len__(self):
        return self.count

    def slide(self, number):
        if number not in self.decoded:
            if len(self.decoded) > 4:
                self.decoded.clear()
            side = 9000 if number == 37 else 256  # one slide was scanned at 40x
            self.decoded[number] = torch.ones(side, side, 3)  #: LINE
            enforce_limit()
        return self.decoded[number]

    def __getitem__(self, i):
        s = self.slide(i // 100)
        g = torch.Generator().manual_seed(i)
        y, x = torch.randint(0, s.shape[0] - 32, (2,), generator=g).tolist()
        tile = s[y : y + 32, x : x + 32].permute(2, 0, 1) + 0.3 * torch.randn(3, 32, 32, generator=g)
        return tile, int(tile.mean() > 1)


def enforce_limit():
    """Does to this process what the kernel does to a container that is full."""
    if torch.utils.data.get_worker_info() and resident_mb() > LIMIT_MB:
        os.kill(os.getpid(), signal.SIGKILL)  #: LINE


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(32, 2)

    def forward(self, x):
        return self.fc(self.conv(x).flatten(1))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Net())
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    data = Tiles()
    # whole slides for each rank: a contiguous part
    part = torch.utils.data.Subset(data, range(rank * len(data) // world, (rank + 1) * len(data) // world))
    loader = DataLoader(part, batch_size=16, num_workers=2, prefetch_factor=2)
    for epoch in range(2):
        for step, (x, y) in enumerate(loader):  #: LINE
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and step % 25 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
