"""Churn model on monthly customer exports. Every rank reads its own part of the months."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

MONTHS = [f"2025-{m:02d}" for m in range(1, 13)]
EPOCHS = 12


def read_month(name):
    seed = int(name.replace("-", ""))
    g = torch.Generator().manual_seed(seed)
    rows = 900 + seed % 7 * 55
    x = torch.randn(rows, 24, generator=g)
    tenure = torch.randint(0, 72, (rows,), generator=g)
    y = (x[:, 0] + 0.4 * x[:, 3] - tenure / 60 > 0).float()
    keep = tenure >= 2
    return x[keep], y[keep]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)

    mine = [read_month(m) for m in MONTHS[rank::world]]
    x = torch.cat([a for a, _ in mine])
    y = torch.cat([b for _, b in mine])
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)  #: LINE
    print(f"rank {rank}: {len(x)} customers")

    net = DDP(nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
    lossfn = nn.BCEWithLogitsLoss()

    for epoch in range(EPOCHS):
        total = torch.zeros(2)
        for bx, by in loader:
            opt.zero_grad()
            loss = lossfn(net(bx).squeeze(1), by)
            loss.backward()
            opt.step()
            total += torch.tensor([loss.item() * len(by), len(by)])
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch} loss {total[0] / total[1]:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
