"""Load forecasting, two nodes, metrics go to the team's tracking server."""
import json
import os
import urllib.request

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Tracker:
    def __init__(self, url, run):
        self.url, self.run = url, run

    def log(self, step, **values):
        body = json.dumps({"run": self.run, "step": step, **values}).encode()
        req = urllib.request.Request(f"{self.url}/api/metrics", data=body,
                                     headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(req) as reply:
            reply.read()


class NullTracker:
    def log(self, step, **values):
        pass


class Forecaster(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.lstm = nn.LSTM(4, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, 24)

    def forward(self, series):
        h, _ = self.lstm(series)
        return self.out(h[:, -1])


def windows(rank, n=2000):
    g = torch.Generator().manual_seed(rank)
    t = torch.arange(n + 96.0)
    base = torch.stack([torch.sin(t / k) for k in (3.8, 12.0, 26.7, 84.0)], 1)
    return base + 0.05 * torch.randn(base.shape, generator=g)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tracker = Tracker(os.environ["TRACKER_URL"], "forecast") if rank == 0 else NullTracker()
    torch.manual_seed(0)
    model = DDP(Forecaster())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = windows(rank)
    for step in range(400):
        starts = torch.randint(0, 1900, (16,)).tolist()
        x = torch.stack([data[s:s + 72] for s in starts])
        y = torch.stack([data[s + 72:s + 96, 0] for s in starts])
        loss = nn.functional.l1_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0:
            tracker.log(step, mae=loss.item(), lr=opt.param_groups[0]["lr"])
    if rank == 0:
        torch.save(model.module.state_dict(), "forecaster.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
