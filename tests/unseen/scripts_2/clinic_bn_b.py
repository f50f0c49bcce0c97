"""Small tabular classifier, trained data-parallel; the validation set is scored by the first process."""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--eval-every", type=int, default=2)
    p.add_argument("--lr", type=float, default=0.05)
    return p.parse_args()


class Net(nn.Module):
    def __init__(self, features=10, hidden=16, classes=3):
        super().__init__()
        self.fc1 = nn.Linear(features, hidden)
        self.bn1 = nn.BatchNorm1d(hidden)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.fc2(F.relu(self.bn1(self.fc1(x))))


def make_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=g)
    y = (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 1).long()
    return TensorDataset(x, y)


@torch.no_grad()
def evaluate(model, loader):
    was_training = model.training
    model.eval()
    hits = total = 0
    for x, y in loader:
        logits = model(x)
        hits += (logits.argmax(1) == y).sum().item()
        total += y.numel()
    model.train(was_training)
    return hits / total


def main():
    args = parse_args()
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)

    train_set, val_set = make_data(96, 1), make_data(64, 2)
    sampler = DistributedSampler(train_set, shuffle=True, seed=3)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, sampler=sampler)
    val_loader = DataLoader(val_set, batch_size=16)

    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in train_loader:
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        if rank == 0 and (epoch + 1) % args.eval_every == 0:
            acc = evaluate(model, val_loader)
            print(f"epoch {epoch}: loss {loss.item():.3f} val acc {acc:.3f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
