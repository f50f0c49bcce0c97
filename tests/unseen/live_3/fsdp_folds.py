"""FSDP2 on folds of a table; after each fold the ranks exchange their summaries."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

ROWS, BATCH = 1536, 48


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(32, 32) for _ in range(3)])
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


def fold_rows(fold, rank, world):
    g = torch.Generator().manual_seed(fold)
    owner = torch.randperm(ROWS, generator=g) % world
    rows = (owner == rank).nonzero().flatten()
    if fold == 2 and rank == 1:
        rows = rows[rows % 11 != 3]  # withdrawn by their owners
    return rows


def batches(rows):
    for i in range(len(rows) // BATCH):  #: LINE
        yield rows[i * BATCH:(i + 1) * BATCH]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    table = torch.randn(ROWS, 32)
    y = table[:, :5].prod(dim=1, keepdim=True)
    mesh = init_device_mesh("cpu", (world,))
    net = Net()
    for layer in net.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for fold in range(8):
        losses = []
        for rows in batches(fold_rows(fold, rank, world)):
            loss = nn.functional.mse_loss(net(table[rows]), y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
            time.sleep(0.2)
        summary = [None] * world
        dist.all_gather_object(summary, {"rank": rank, "loss": sum(losses) / len(losses)})
        if rank == 0:
            print(f"fold {fold}: {summary}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
