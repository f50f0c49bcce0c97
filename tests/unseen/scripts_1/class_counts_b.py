import datetime
import random

import numpy as np
import torch
import torch.distributed as dist

CLASSES = 7


def seed_all(s):
    random.seed(s)
    np.random.seed(s)
    torch.manual_seed(s)


def labels_of(rank, n=40):
    rng = np.random.default_rng(rank)
    top = CLASSES - 1 if rank == 1 else CLASSES    # this shard lacks the rarest class
    y = rng.integers(0, top, size=n)
    y[:top] = np.arange(top)
    return torch.from_numpy(y)


def class_weights(labels):
    counts = torch.bincount(labels)
    dist.all_reduce(counts)
    return counts.sum() / (CLASSES * counts.clamp(min=1).float())


def train(weights, labels, rank, epochs=3):
    g = torch.Generator().manual_seed(55 + rank)
    feats = torch.nn.functional.one_hot(labels, CLASSES).float()
    feats += 0.3 * torch.randn(feats.shape, generator=g)
    model = torch.nn.Linear(CLASSES, CLASSES)
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    lossf = torch.nn.CrossEntropyLoss(weight=weights)
    for epoch in range(epochs):
        loss = lossf(model(feats), labels)
        model.zero_grad()
        loss.backward()
        handles = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
        for h in handles[::-1]:
            h.wait()
        for p in model.parameters():
            p.data -= 0.5 * p.grad / dist.get_world_size()
        if rank == 0:
            print("epoch", epoch, "loss", f"{loss.item():.4f}")


def main():
    seed_all(0)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    rank = dist.get_rank()
    labels = labels_of(rank)
    w = class_weights(labels)
    if rank == 0:
        print("weights", [round(v, 2) for v in w.tolist()])
    train(w, labels, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
