"""Forecasting of loads; each step is reported to the experiment tracker."""
import torch
import torch.nn.functional as F
from torch import nn

from pace import Pace
from tracker import Tracker, start_server

STEPS = 64
BATCH, HORIZON, CONTEXT = 320, 24, 168


class Forecaster(nn.Module):
    def __init__(self, width=768):
        super().__init__()
        self.enter = nn.Linear(CONTEXT, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.leave = nn.Linear(width, HORIZON)

    def forward(self, x):
        x = F.relu(self.enter(x))
        for layer in self.hidden:
            x = x + F.relu(layer(x))
        return self.leave(x)


def main():
    torch.manual_seed(6)
    server, port = start_server()
    tracker = Tracker(port, run="loads-v2")
    model = Forecaster()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    series = torch.sin(torch.arange(60_000) / 24 * 6.2832) + 0.1 * torch.randn(60_000)
    pace = Pace()
    for step in range(STEPS):
        starts = torch.randint(0, len(series) - CONTEXT - HORIZON, (BATCH, 1))
        window = series[starts + torch.arange(CONTEXT + HORIZON)]
        loss = F.l1_loss(model(window[:, :CONTEXT]), window[:, CONTEXT:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        tracker.log(step=step, loss=loss.item(), lr=schedule.get_last_lr()[0])
        pace.tick()
    tracker.finish()
    server.terminate()
    pace.report()


if __name__ == "__main__":
    main()
