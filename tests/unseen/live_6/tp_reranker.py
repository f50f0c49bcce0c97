import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, TensorDataset


class Reranker(nn.Module):
    """Scores a query-passage pair from its pooled features."""

    def __init__(self, dim=64, hidden=240):
        super().__init__()
        self.up1, self.down1 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.up2, self.down2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.score = nn.Linear(dim, 1)

    def forward(self, x):
        x = x + self.down1(torch.relu(self.up1(x)))
        x = x + self.down2(torch.relu(self.up2(x)))
        return self.score(x).squeeze(-1)


def pairs(lo, hi):
    g = torch.Generator().manual_seed(21)
    x = torch.randn(5000, 64, generator=g)
    y = (x[:, :8].sum(1) > 0).float()
    return TensorDataset(x[lo:hi], y[lo:hi])


def run():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    torch.manual_seed(1)
    model = Reranker()
    plan = {"up1": ColwiseParallel(), "down1": RowwiseParallel(), "up2": ColwiseParallel(), "down2": RowwiseParallel()}
    parallelize_module(model, mesh["tp"], plan)
    opt = torch.optim.SGD(model.parameters(), lr=0.02)

    part = 1200
    lo = rank * part
    hi = min(lo + part, 3511)  #: LINE
    loader = DataLoader(pairs(lo, hi), batch_size=24, shuffle=False)

    for epoch in range(6):
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and i % 10 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


run()
