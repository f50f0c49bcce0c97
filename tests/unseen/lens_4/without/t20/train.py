"""Satellite tiles from a slow archive through a DataLoader with workers."""
import statistics
import time
import torch
from torch import nn
from torch.utils.data import DataLoader
from tiles import Tiles


class Segment(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 2, 1))

    def forward(self, x):
        time.sleep(0.040)
        return self.net(x)


def make_loader(steps, batch=6, workers=3):
    return DataLoader(Tiles(steps * batch), batch_size=batch, num_workers=workers, prefetch_factor=2)


class Clock:
    def __init__(self):
        self.marks = [time.perf_counter()]

    def tick(self):
        self.marks.append(time.perf_counter())

    def report(self):
        took = [b - a for a, b in zip(self.marks, self.marks[1:])]
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took[1:]):.2f} ms/step")


def main():
    torch.manual_seed(4)
    model = Segment()
    opt = torch.optim.AdamW(model.parameters())
    loader = make_loader(30)
    clock = Clock()
    for image, mask in loader:
        loss = nn.functional.cross_entropy(model(image), mask)
        loss.backward()
        opt.step()
        opt.zero_grad()
        clock.tick()
    clock.report()


if __name__ == "__main__":
    main()
