import os
import statistics
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

from journal import Journal


class Forecast(nn.Module):
    def __init__(self, sensors=20, hidden=256):
        super().__init__()
        self.rnn = nn.GRU(sensors, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, sensors)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h)


def series(count=600, length=49, sensors=20):
    g = torch.Generator().manual_seed(1)
    phase = 6.28 * torch.rand(count, 1, sensors, generator=g)
    speed = 0.05 + 0.3 * torch.rand(count, 1, sensors, generator=g)
    return torch.sin(phase + speed * torch.arange(length)[None, :, None])


def main(steps=60, batch=32):
    torch.manual_seed(0)
    data, model = series(), Forecast()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(os.path.join(folder, "run.jsonl"))
        for step in range(steps):
            began = time.perf_counter()
            x = data[torch.randint(0, len(data), (batch,))]
            loss = F.mse_loss(model(x[:, :-1]), x[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            journal.add(step=step, loss=loss.item(), norm=norm.item())
            times.append(1e3 * (time.perf_counter() - began))
        journal.close()
        with open(journal.path) as file:
            print(f"{len(file.readlines())} lines written, loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
