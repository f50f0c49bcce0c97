import time
from statistics import mean, median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from report import STATIONS, averaged, per_station

STEPS, BATCH, HOURS = 66, 16, 60


class Surge(nn.Module):
    def __init__(self, stations, hidden=160):
        super().__init__()
        self.gru = nn.GRU(stations, hidden, batch_first=True)
        self.out = nn.Linear(hidden, stations)

    def forward(self, x):
        h, _ = self.gru(x)
        return self.out(h[:, -1])


def levels(n, g):
    phase = torch.rand(len(STATIONS), generator=g) * 6.28
    t = torch.arange(n).float()[:, None]
    return torch.sin(t / 12.42 * 6.28 + phase) + 0.3 * torch.sin(t / 12 * 6.28) + 0.1 * torch.randn(n, len(STATIONS), generator=g)


def main():
    dist.init_process_group(backend="gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(rank)
    series = levels(5000, g)
    net = DDP(Surge(len(STATIONS)))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    history, spent = [], []
    for step in range(STEPS):
        begin = time.perf_counter()
        at = torch.randint(0, 5000 - HOURS - 1, (BATCH,), generator=g).tolist()
        x = torch.stack([series[a:a + HOURS] for a in at])
        y = torch.stack([series[a + HOURS] for a in at])
        guess = net(x)
        loss = nn.functional.mse_loss(guess, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(averaged(per_station(guess.detach(), y)))
        spent.append((time.perf_counter() - begin) * 1e3)
    if rank == 0:
        worst = max(history[-1], key=lambda s: history[-1][s])
        print("largest error at", worst)
        print(f"{median(spent[3:]):.2f} ms/step median, {mean(spent[3:]):.2f} ms/step")
    del net, opt
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
