import copy
import statistics
import time

import torch
from torch import nn

from views import two_views


class Backbone(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 64))

    def forward(self, x):
        return nn.functional.normalize(self.body(x), dim=-1)


def main():
    torch.manual_seed(0)
    pictures = torch.rand(256, 3, 32, 32)
    student = Backbone()
    guide = copy.deepcopy(student).requires_grad_(False)
    predictor = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    optimizer = torch.optim.SGD([*student.parameters(), *predictor.parameters()], lr=0.05, momentum=0.9)
    times = []
    for step in range(62):
        begin = time.perf_counter()
        one, two = two_views(pictures[torch.randint(256, (12,))])
        with torch.no_grad():
            wanted = guide(two)
        loss = 2 - 2 * (nn.functional.normalize(predictor(student(one)), dim=-1) * wanted).sum(-1).mean()
        if not torch.isfinite(loss):
            raise RuntimeError(f"the loss is {loss.item()} at step {step}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for g, s in zip(guide.parameters(), student.parameters()):
                g.lerp_(s, 0.01)
        times.append(1000 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
