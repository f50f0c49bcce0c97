import os
import statistics
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

from diary import Diary


class Tune(nn.Module):
    """Goes on with the tune of a hurdy-gurdy."""

    def __init__(self, notes=48, width=144):
        super().__init__()
        self.note, self.lstm, self.out = nn.Embedding(notes, 48), nn.LSTM(48, width, batch_first=True), nn.Linear(width, notes)

    def forward(self, notes):
        return self.out(self.lstm(self.note(notes))[0])


def main(steps=60, batch=80, length=40, notes=48):
    torch.manual_seed(0)
    tune = (torch.arange(60000) * 5 % 31 + torch.randint(0, 4, (60000,))) % notes
    model = Tune(notes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        diary = Diary(os.path.join(folder, "steps.csv"), ["step", "loss", "rate", "norm"])
        for step in range(steps):
            began = time.perf_counter()
            begins = torch.randint(0, len(tune) - length - 1, (batch, 1))
            lines = tune[begins + torch.arange(length + 1)]
            loss = F.cross_entropy(model(lines[:, :-1]).flatten(0, 1), lines[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            diary.add(step=step, loss=loss.item(), rate=schedule.get_last_lr()[0], norm=norm.item())
            schedule.step()
            times.append(1e3 * (time.perf_counter() - began))
        diary.close()
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
