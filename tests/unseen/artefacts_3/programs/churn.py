import copy
import logging

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import flightrec  # noqa: F401

logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
log = logging.getLogger(__name__)


class EarlyStopping:
    def __init__(self, patience=4, min_delta=2e-3):
        self.patience = patience
        self.min_delta = min_delta
        self.best = float("inf")
        self.bad = 0
        self.weights = None

    def __call__(self, value, model):
        if value < self.best - self.min_delta:
            self.best = value
            self.bad = 0
            self.weights = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad >= self.patience


def customers(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    y = ((x[:, :3].sum(1) + 0.8 * torch.randn(n, generator=g)) > 0.4).float()
    return TensorDataset(x, y)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total, n = 0.0, 0
    for x, y in loader:
        total += nn.functional.binary_cross_entropy_with_logits(model.module(x).squeeze(1), y).item() * len(x)
        n += len(x)
    model.train()
    return total / n


def main():
    dist.init_process_group(backend="gloo")
    rank = dist.get_rank()
    train_set, val_set = customers(4000, 1), customers(600, 2)
    train_sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=64, sampler=train_sampler)
    val_loader = DataLoader(val_set, batch_size=64, sampler=DistributedSampler(val_set, shuffle=False))

    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
    model = DistributedDataParallel(net)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    stopper = EarlyStopping()

    for epoch in range(60):
        train_sampler.set_epoch(epoch)
        for x, y in train_loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        val = validate(model, val_loader)
        if rank == 0:
            log.info("epoch %d val loss %.4f", epoch, val)
        if stopper(val, model):
            log.info("rank %d: no progress, stopping in epoch %d", rank, epoch)
            break

    best = [None] * dist.get_world_size()
    dist.all_gather_object(best, stopper.best)
    if rank == 0:
        log.info("best val loss of any rank %.4f", min(best))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
