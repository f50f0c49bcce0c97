"""Age from wrist X-rays of children (regression), with the loss of each picture kept."""
import os
import tempfile

import torch
from torch import nn

from history import History
from pace import Pace

STEPS = 64


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [1, 24, 48, 96]
        self.trunk = nn.Sequential(*(layer for i, o in zip(widths, widths[1:]) for layer in
                                     (nn.Conv2d(i, o, 3, stride=2, padding=1), nn.BatchNorm2d(o), nn.ReLU(),
                                      nn.Conv2d(o, o, 3, padding=1), nn.ReLU())))
        self.age = nn.Linear(96, 1)

    def forward(self, x):
        return self.age(self.trunk(x).mean((2, 3)))[:, 0]


def main():
    torch.manual_seed(0)
    wrists, years = torch.randn(1024, 1, 40, 40), torch.rand(1024) * 18
    model = Regressor()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        history = History(os.path.join(folder, "history.json"))
        for step in range(STEPS):
            pick = torch.randint(0, 1024, (80,))
            guesses = model(wrists[pick])
            losses = (guesses - years[pick]).abs()
            opt.zero_grad()
            losses.mean().backward()
            opt.step()
            schedule.step()
            history.add(step, pick, guesses.detach(), losses.detach(), schedule.get_last_lr()[0])
            pace.tick()
    print(f"off by {losses.mean().item():.2f} years")
    pace.report()


if __name__ == "__main__":
    main()
