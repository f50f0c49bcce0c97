import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from journal import Journal


class Heart(nn.Module):
    """Beats of a heart: which of five rhythms."""

    def __init__(self, leads=8, width=128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(leads, width, 9, stride=2, padding=4), nn.ReLU(), nn.Conv1d(width, width, 9, padding=4), nn.ReLU(),
            nn.Conv1d(width, width, 9, padding=4), nn.ReLU(),
        )
        self.out = nn.Linear(width, 5)

    def forward(self, x):
        return self.out(self.net(x).mean(2))


def main(steps=60, batch=32):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(Heart(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    g = torch.Generator().manual_seed(rank)
    rhythm = torch.randint(0, 5, (800,), generator=g)
    beats = torch.randn(800, 8, 128, generator=g)
    beats[:, 0] += rhythm.view(-1, 1) / 3
    journal, times = Journal(rank), []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 800, (batch,))
        loss = F.cross_entropy(model(beats[picked]), rhythm[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        journal.note(step, loss, optimizer)
        times.append(1e3 * (time.perf_counter() - began))
    if rank == 0:
        print(journal.lines[-1])
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
