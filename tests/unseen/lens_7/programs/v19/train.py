from collections import Counter

import torch
from torch import nn

from steptime import StepTime

STEPS = 64


class ConvNet(nn.Module):
    def __init__(self, c=24, classes=8):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU(),
                                      nn.MaxPool2d(2), nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(2 * c, classes)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def main():
    torch.manual_seed(0)
    model = ConvNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    hits = Counter()
    clock = StepTime()
    for step in range(STEPS):
        x, y = torch.randn(32, 1, 28, 28), torch.randint(0, 8, (32,))
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        for p, g in zip(logits.argmax(1).tolist(), y.tolist()):
            hits[p == g] += 1
        clock.tick()
    print(f"accuracy {hits[True] / sum(hits.values()):.3f}")
    clock.report()


if __name__ == "__main__":
    main()
