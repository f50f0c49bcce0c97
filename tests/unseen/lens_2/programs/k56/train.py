from collections import deque
from time import perf_counter, sleep
import torch
from torch import nn
import torch.nn.functional as F
from lane import run

STEPS = 30


class Finder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=4), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU())
        self.box = nn.Linear(16, 4)

    def forward(self, x):
        return run(24, self.box(self.body(x).mean((2, 3))))


class Drift:
    """Keeps an eye on where the boxes go."""

    def __init__(self, late=0):
        self.late, self.pending, self.centre = late, deque(), torch.zeros(2)

    def see(self, boxes):
        self.pending.append(boxes.detach())
        while len(self.pending) > self.late:
            host = self.pending.popleft().cpu()
            self.centre = 0.9 * self.centre + 0.1 * host[:, :2].mean(0).as_subclass(torch.Tensor)


def crops(step):
    g = torch.Generator().manual_seed(step)
    sleep(0.05)
    return torch.rand(6, 3, 48, 48, generator=g), torch.rand(6, 4, generator=g)


def train():
    torch.manual_seed(1)
    net = Finder()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    drift = Drift(late=3)
    t0 = perf_counter()
    for step in range(STEPS):
        images, target = crops(step)
        boxes = net(images)
        loss = F.smooth_l1_loss(boxes, target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        end = run(14)
        opt.step()
        drift.see(boxes)
    end.result()
    print("centre", [round(float(v), 3) for v in drift.centre], f"{(perf_counter() - t0) * 1e3 / STEPS:.2f} ms/step")


if __name__ == "__main__":
    train()
