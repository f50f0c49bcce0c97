"""Digit classifier, data parallel.  torchrun --nproc-per-node 4 train_digits.py"""
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def fake_digits(n, seed):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (n,), generator=g)
    images = torch.randn(n, 1, 28, 28, generator=g) + labels.view(-1, 1, 1, 1) / 5
    return TensorDataset(images, labels)


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, stride=2)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2)
        self.head = nn.Linear(16 * 6 * 6, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return self.head(x.flatten(1))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    stats = torch.zeros(2)
    for images, labels in loader:
        pred = model(images).argmax(1)
        stats[0] += (pred == labels).sum()
        stats[1] += labels.numel()
    dist.reduce(stats, dst=0)
    model.train()
    return (stats[0] / stats[1]).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--eval-every", type=int, default=30)
    args = ap.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)

    train_set, val_set = fake_digits(6400, 1), fake_digits(512, 2)
    sampler = DistributedSampler(train_set, shuffle=True)
    train_loader = DataLoader(train_set, batch_size=32, sampler=sampler)
    val_loader = DataLoader(val_set, batch_size=64)

    model = DDP(SmallCNN())
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    step = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for images, labels in train_loader:
            loss = F.cross_entropy(model(images), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
            if rank == 0 and step % args.eval_every == 0:
                acc = validate(model.module, val_loader)
                print(f"step {step} val acc {acc:.3f}", flush=True)

    dist.barrier()
    if rank == 0:
        torch.save(model.module.state_dict(), "digits.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
