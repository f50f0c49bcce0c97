import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from sounds import loader


class Listener(nn.Module):
    def __init__(self, bins=65, width=256, classes=9):
        super().__init__()
        self.enter = nn.Linear(bins, width)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        return self.out(self.body(self.enter(x)).mean(1))


def main(steps=60):
    torch.manual_seed(0)
    model = Listener()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    times, step = [], 0
    while step < steps:
        began = time.perf_counter()
        for spectra, labels in loader():
            loss = F.cross_entropy(model(spectra), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            now = time.perf_counter()
            times.append(1e3 * (now - began))
            began, step = now, step + 1
            if step == steps:
                break
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
