"""`last.pt` on a slow disk in every step, written by a thread of its own."""
import statistics
import time
import torch
from torch import nn
from keeper import Keeper


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 32))

    def forward(self, x):
        time.sleep(0.050)
        return self.f(x)


def loop(model, opt, keeper, steps=30):
    for step in range(steps):
        t = time.perf_counter()
        x = torch.randn(16, 32)
        loss = (model(x) - x.roll(1, 1)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        keeper.save({k: v.clone() for k, v in model.state_dict().items()}, step)
        yield time.perf_counter() - t


def main():
    torch.manual_seed(2)
    model, keeper = Model(), Keeper("last.pt")
    took = list(loop(model, torch.optim.SGD(model.parameters(), lr=0.1), keeper))
    keeper.close()
    print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")


main()
