import os
import typing

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Patience:
    def __init__(self, limit: int, min_delta: float):
        self.limit = limit
        self.min_delta = min_delta
        self.best = float("inf")
        self.bad = 0

    def update(self, value: float) -> bool:
        if value < self.best - self.min_delta:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.limit


class Trainer:
    def __init__(self, rank: int, warmup: int = 2, epochs: int = 30):
        torch.manual_seed(13)
        self.rank, self.warmup, self.epochs = rank, warmup, epochs
        self.model = DDP(nn.Sequential(nn.Linear(7, 14), nn.ReLU(), nn.Linear(14, 1)))
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.patience = Patience(limit=2, min_delta=0.01)
        self.train_loader, self.sampler = self.loader(seed=1, n=128)
        self.val_loader, _ = self.loader(seed=2, n=64)

    @staticmethod
    def loader(seed: int, n: int) -> typing.Tuple[DataLoader, DistributedSampler]:
        g = torch.Generator().manual_seed(seed)
        x = torch.randn(n, 7, generator=g)
        ds = TensorDataset(x, (x[:, :2] ** 2).sum(1, keepdim=True) / 4)
        sampler = DistributedSampler(ds)
        return DataLoader(ds, batch_size=8, sampler=sampler), sampler

    def loss(self, x, y):
        return nn.functional.mse_loss(self.model(x), y)

    def fit_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)
        for x, y in self.train_loader:
            self.opt.zero_grad()
            self.loss(x, y).backward()
            self.opt.step()

    @torch.no_grad()
    def validate(self) -> float:
        sums = torch.zeros(2)
        for x, y in self.val_loader:
            sums += torch.stack([self.loss(x, y) * len(x), torch.tensor(float(len(x)))])
        dist.all_reduce(sums)
        return (sums[0] / sums[1]).item()

    def out_of_patience(self, value: float) -> bool:
        flag = torch.zeros(1, dtype=torch.uint8)
        if self.rank == 0:
            if self.patience.update(value):
                flag.fill_(1)
        dist.broadcast(flag, src=0)
        return bool(flag.item())

    def run(self) -> int:
        for epoch in range(self.epochs):
            self.fit_epoch(epoch)
            value = self.validate()
            if epoch >= self.warmup and self.out_of_patience(value):
                break
        return epoch


if __name__ == "__main__":
    dist.init_process_group("gloo")
    stopped = Trainer(int(os.environ["RANK"])).run()
    print("stopped after epoch", stopped, flush=True)
    dist.destroy_process_group()
