import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from polymers import QUALITIES, Head, Trunk, chains


def train_step(trunk, heads, optimizer, chain, wanted):
    """Head by head, so that only one of them is held in memory; the trunk goes back once, at the end."""
    optimizer.zero_grad()
    features = trunk(chain)
    border = features.detach().requires_grad_()
    losses = []
    for name in QUALITIES:
        loss = F.mse_loss(heads[name](border), wanted[name])
        loss.backward()
        losses.append(loss.detach())
    features.backward(border.grad)
    optimizer.step()
    return torch.stack(losses)


def main(steps=60, batch=32):
    torch.manual_seed(0)
    chain, wanted = chains()
    trunk, heads = Trunk(), nn.ModuleDict({name: Head() for name in QUALITIES})
    optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], lr=1e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        cut = slice(step * batch, (step + 1) * batch)
        losses = train_step(trunk, heads, optimizer, chain[cut], {name: wanted[name][cut] for name in QUALITIES})
        times.append(1e3 * (time.perf_counter() - began))
    print("loss " + ", ".join(f"{loss:.6f}" for loss in losses.tolist()))
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
