import os
import statistics
import tempfile
import time

import torch
from accelerate import Accelerator
from torch import nn

from keep import Keeper


class Beat(nn.Module):
    """Heart beats, five kinds."""

    def __init__(self, c=40):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(2, c, 11, padding=5), nn.ReLU(), nn.Conv1d(c, c, 11, padding=5), nn.ReLU(), nn.MaxPool1d(2),
                                 nn.Conv1d(c, c, 11, padding=5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(c, 5))

    def forward(self, x):
        return self.net(x)


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    x, kind = torch.randn(300, 2, 256), torch.randint(5, (300,))
    model, optimizer = Beat(), None
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    ms = []
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper(os.path.join(folder, "beat.pt"), every=1000)
        for step in range(1, 65):
            begin = time.perf_counter()
            i = torch.randint(300, (32,))
            loss = nn.functional.cross_entropy(model(x[i]), kind[i])
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            keeper.after(step, accelerator, model, optimizer)
            ms.append(1000 * (time.perf_counter() - begin))
    ms = ms[3:]
    accelerator.print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")
    accelerator.end_training()


main()
