"""Automatic collections are off; the young generation alone is collected after each step."""
import gc
import statistics
import time
import torch
from torch import nn


class Young:
    """Collects what a step left behind, not the whole heap."""
    def __enter__(self):
        gc.collect()
        gc.disable()
        return self

    def after_step(self):
        gc.collect(0)

    def __exit__(self, *exc):
        gc.enable()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv1d(4, 8, 3), nn.Linear(8, 2)

    def forward(self, x):
        time.sleep(0.044)
        return self.out(self.conv(x).mean(-1))


def main():
    index = [{"name": f"clip {i}", "frames": [i, i + 1]} for i in range(40000)]
    torch.manual_seed(0)
    net = Net()
    opt = torch.optim.Adam(net.parameters())
    took = []
    with Young() as young:
        for step in range(30):
            t = time.perf_counter()
            frames = torch.tensor([index[step * 8 + i]["frames"][0] % 2 for i in range(8)])
            loss = nn.functional.cross_entropy(net(torch.randn(8, 4, 24)), frames)
            loss.backward()
            opt.step()
            opt.zero_grad()
            young.after_step()
            took.append(time.perf_counter() - t)
    print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")


if __name__ == "__main__":
    main()
