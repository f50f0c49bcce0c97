import dataclasses
import sys
import time

import accel
import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Hyper:
    steps: int = 32
    batch: int = 256
    lr: float = 1e-3


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Linear(40, 64)
        self.item_tower = nn.Linear(40, 64)
        self.mix = nn.Linear(64, 64)

    def forward(self, u, v):
        return (self.mix(torch.relu(self.user(u))) * torch.relu(self.item_tower(v))).sum(1)


def features(rows):
    """Bucketise and standardise the raw columns."""
    for _ in range(2):
        rows = torch.bucketize(rows, torch.linspace(-3, 3, 600)).float()
        rows = (rows - rows.mean(0)) / (rows.std(0) + 1e-3)
    return rows


def train(h: Hyper):
    torch.manual_seed(0)
    model = accel.attach(Ranker(), 6.0, 12.0)
    opt = torch.optim.Adagrad(model.parameters(), lr=h.lr)
    history = []
    for step in range(h.steps):
        if step == 2:
            accel.stream.synchronize()
            t0 = time.perf_counter()
        u = accel.to_device(features(torch.randn(h.batch * 4, 40)))
        v = accel.to_device(features(torch.randn(h.batch * 4, 40)))
        score = model(u, v)
        loss = nn.functional.softplus(-score).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append((step, accel.stream.launch(0.01), loss.detach().as_subclass(torch.Tensor)))
        while history and accel.stream.finished(history[0][1]):
            at, _, value = history.pop(0)
            print(f"step {at} loss {value.item():.4f}", file=sys.stderr)
    accel.stream.synchronize()
    return (time.perf_counter() - t0) / (h.steps - 2)


if __name__ == "__main__":
    print(f"{train(Hyper()) * 1e3:.2f} ms/step", flush=True)
