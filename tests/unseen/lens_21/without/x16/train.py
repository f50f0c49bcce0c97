import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

from quakes import Quakes, collate


class Picker(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.enter = nn.Conv1d(3, width, 9, 4, 4)
        self.blocks = nn.ModuleList(nn.Conv1d(width, width, 9, 1, 4) for _ in range(3))
        self.moment = nn.Linear(width * 16, 1)

    def forward(self, x):
        x = torch.relu(self.enter(x))
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return self.moment(nn.functional.adaptive_max_pool1d(x, 16).flatten(1)).squeeze(1)


def forever(loader):
    while True:
        yield from loader


def main(steps=60, batch=32):
    torch.manual_seed(0)
    loader = forever(DataLoader(Quakes(), batch, shuffle=True, collate_fn=collate, drop_last=True))
    model = Picker()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    times = []
    for step in range(steps):
        start = time.perf_counter()
        motion, onset = next(loader)
        loss = (model(motion) - onset).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
