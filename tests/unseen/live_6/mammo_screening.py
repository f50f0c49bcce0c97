"""Screening classifier. After each epoch the first rank scores the reading study on its own, the others wait."""
import math
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def cnn():
    return nn.Sequential(nn.Conv2d(1, 12, 5, stride=2), nn.ReLU(), nn.Conv2d(12, 24, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(96, 2))


def reading_study(model, budget):
    """Permutation test for the partial AUC; takes as many permutations as fit into the budget."""
    with torch.no_grad():
        g = torch.Generator().manual_seed(0)
        x = torch.rand(300, 1, 32, 32, generator=g)
        y = (x.mean((1, 2, 3)) > 0.5).tolist()
        s = model(x)[:, 1].tolist()
    began, rounds, above = time.monotonic(), 0, 0
    ref = pauc(s, y)
    order = list(range(len(y)))
    state = 1
    while time.monotonic() - began < budget:
        for i in range(len(order) - 1, 0, -1):
            state = (state * 1103515245 + 12345) % 2**31
            j = state % (i + 1)
            order[i], order[j] = order[j], order[i]
        above += pauc(s, [y[i] for i in order]) >= ref
        rounds += 1
    return ref, above / rounds, rounds


def pauc(scores, labels):
    pos = sum(labels) or 1
    neg = len(labels) - pos or 1
    tp = fp = 0
    area = 0.0
    for s, l in sorted(zip(scores, labels), reverse=True):
        if l:
            tp += 1
        else:
            fp += 1
            if fp / neg > 0.2:
                break
            area += tp / pos
    return area / math.ceil(0.2 * neg)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(cnn())
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    g = torch.Generator().manual_seed(rank)
    for epoch in range(2):
        for step in range(120):
            x = torch.rand(8, 1, 32, 32, generator=g)
            y = (x.mean((1, 2, 3)) > 0.5).long()
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        dist.barrier()
        if rank == 0:
            ref, p, rounds = reading_study(model.module, budget=32)
            print(f"epoch {epoch} loss {loss.item():.3f} pAUC {ref:.3f} p {p:.3f} ({rounds} permutations)", flush=True)
        dist.barrier()
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
