"""DDP on a stream of shards (an IterableDataset per rank), validation after each pass."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

SHARDS = [240, 240, 240, 240, 240, 240, 240, 240, 240, 240, 240, 152]  # samples in each


class ShardStream(IterableDataset):
    def __init__(self, rank, world, epoch):
        self.mine = list(range(rank, len(SHARDS), world))
        self.epoch = epoch

    def __iter__(self):
        for shard in self.mine:
            g = torch.Generator().manual_seed(1000 * self.epoch + shard)
            for _ in range(SHARDS[shard]):
                x = torch.randn(3, 16, 16, generator=g)
                y = int(x[0].mean() > x[1].mean()) + 2 * int(x[2].mean() > 0)
                yield x, y


class SmallConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        )
        self.head = nn.Linear(48 * 4, 4)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


def validate(model, step):
    model.eval()
    g = torch.Generator().manual_seed(9 + step)
    right = torch.zeros(2)
    with torch.no_grad():
        for _ in range(8):
            x = torch.randn(16, 3, 16, 16, generator=g)
            y = (x[:, 0].mean((1, 2)) > x[:, 1].mean((1, 2))).long() + 2 * (x[:, 2].mean((1, 2)) > 0).long()
            right += torch.tensor([(model.module(x).argmax(1) == y).sum().item(), len(y)])
    dist.all_reduce(right)
    model.train()
    return (right[0] / right[1]).item()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(SmallConv())
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = 0
    for epoch in range(3):
        loader = DataLoader(ShardStream(rank, world, epoch), batch_size=8, num_workers=1, drop_last=True)
        for x, y in loader:  #: LINE
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
        acc = validate(model, step)  #: LINE
        if rank == 0:
            print(f"epoch {epoch} steps {step} accuracy {acc:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
