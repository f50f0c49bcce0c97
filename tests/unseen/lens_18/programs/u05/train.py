import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from shelf import Shelf


class Melody(nn.Module):
    def __init__(self, notes=96, width=224):
        super().__init__()
        self.notes = nn.Embedding(notes, width)
        self.layers = nn.LSTM(width, width, num_layers=1, batch_first=True)
        self.out = nn.Linear(width, notes)

    def forward(self, x):
        return self.out(self.layers(self.notes(x))[0])


def main(steps=60):
    torch.manual_seed(0)
    songs = (torch.arange(60000) * 7 // 3 + torch.randint(0, 4, (60000,))) % 96
    shelf, net = Shelf(songs, batch=40, length=48), Melody()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        x, y = shelf.take()
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    shelf.close()
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
