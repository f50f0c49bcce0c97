import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from tally import Tally

ANIMALS = ("owl", "fox", "frog", "bat", "deer", "crane")


class Ear(nn.Module):
    def __init__(self, bands=32, width=128):
        super().__init__()
        self.lstm = nn.LSTM(bands, width, 2, batch_first=True)
        self.out = nn.Linear(width, len(ANIMALS))

    def forward(self, sound):
        return self.out(self.lstm(sound)[0].mean(1))


def night(count, length=24, bands=32):
    """Sounds of a night: each animal has its pitch."""
    truth = torch.randint(0, len(ANIMALS), (count,))
    pitch = 5.0 * truth.view(-1, 1, 1) + 2 + torch.randn(count, length, 1)
    return torch.exp(-(torch.arange(bands) - pitch).square() / 8) + 0.3 * torch.rand(count, length, bands), truth


def main(steps=60, batch=64):
    torch.manual_seed(0)
    sounds, truths = night(2000)
    ear, tally = Ear(), Tally(ANIMALS)
    optimizer = torch.optim.AdamW(ear.parameters(), lr=2e-3, fused=True)
    times = []
    for step in range(steps):
        t = time.perf_counter()
        picked = torch.randint(0, len(sounds), (batch,))
        sound, truth = sounds[picked], truths[picked]
        scores = ear(sound)
        loss = F.cross_entropy(scores, truth)
        tally.add(scores.detach().argmax(1), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - t))
    print(f"loss {loss.item():.6f}; {tally}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
