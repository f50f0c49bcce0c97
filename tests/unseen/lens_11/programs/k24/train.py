"""One-stage counter of cars in aerial pictures, data parallel on two ranks."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from multiscale import MultiScale
from pace import Pace

STEPS = 64
SEED = 1127


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv2d(24, 48, 3, stride=2, padding=1), nn.LeakyReLU(0.1),
            nn.Conv2d(48, 64, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv2d(64, 64, 3, padding=1), nn.LeakyReLU(0.1))
        self.density = nn.Conv2d(64, 1, 1)

    def forward(self, x):
        return self.density(self.features(x)).relu().mean((1, 2, 3))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Counter())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = torch.Generator().manual_seed(100 + rank)
    resize = MultiScale(SEED + rank)
    pace = Pace()
    for step in range(STEPS):
        pictures = torch.rand(6, 3, 96, 96, generator=data)
        cars = torch.rand(6, generator=data)
        pictures = resize(pictures)  #: LINE
        loss = (model(pictures) - cars).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.tick()
    if rank == 0:
        print(f"error {loss.item():.4f}")
        pace.report()
    dist.barrier()
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
