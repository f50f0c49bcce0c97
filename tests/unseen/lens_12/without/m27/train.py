import statistics
import time

import torch
from accelerate import Accelerator
from torch import nn

from progress import Progress


class Gestures(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(9, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
                                  nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU())
        self.rnn = nn.GRU(width, 80, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(80, 12)

    def forward(self, x):
        h = self.conv(x).transpose(1, 2)
        return self.out(self.drop(self.rnn(h)[0].mean(1)))


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    y = torch.randint(12, (480,))
    x = torch.randn(480, 9, 80) + (y.view(-1, 1, 1) - 6) * 0.05
    model = Gestures()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-4)
    model, optimizer = accelerator.prepare(model, optimizer)
    progress, times = Progress(), []
    for step in range(64):
        start = time.perf_counter()
        pick = torch.randint(480, (40,))
        scores = model(x[pick])
        loss = nn.functional.cross_entropy(scores, y[pick])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        progress.update(scores, y[pick], loss)
        times.append(1000 * (time.perf_counter() - start))
        if step % 30 == 29:
            accelerator.print(step, progress.text())
    times = times[3:]
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    accelerator.end_training()


main()
