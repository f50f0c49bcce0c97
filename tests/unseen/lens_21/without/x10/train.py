import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from history import History


def customers(count=24000, features=64, kinds=5, wrong=0.05):
    """Customers with a kind, some of them with a wrong one."""
    features_of = torch.randn(count, features)
    kind = (features_of @ torch.randn(features, kinds)).argmax(1)
    mistaken = torch.rand(count) < wrong
    return features_of, torch.where(mistaken, torch.randint(0, kinds, (count,)), kind)


class Net(nn.Module):
    def __init__(self, features=64, width=320, kinds=5):
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.out = nn.Linear(width, kinds)

    def forward(self, x):
        x = F.relu(self.enter(x))
        for layer in self.hidden:
            x = x + F.relu(layer(x))
        return self.out(x)


def main(steps=60, batch=1500):
    torch.manual_seed(0)
    x, y = customers()
    model, history = Net(), History()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    times, order = [], torch.empty(0, dtype=torch.long)
    for step in range(steps):
        t = time.perf_counter()
        if len(order) < batch:
            order = torch.randperm(len(x))
        picked, order = order[:batch], order[batch:]
        scores = model(x[picked])
        loss = F.cross_entropy(scores, y[picked])
        history.add(picked, y[picked], scores.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - t))
    print(f"loss {loss.item():.6f}, look at {history.suspects()[:5]}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
