import os
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
dp = mesh.get_group("dp")
rank = int(os.environ["RANK"])


class Block(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def log_norms(step, blocks):
    """weights are DTensors now, their norm needs the whole matrix"""
    if rank != 0:
        return
    for i, b in enumerate(blocks):
        w = b.up.weight.full_tensor()          #: LINE
        print(f"step {step} block {i} |W| = {w.norm():.4f}", flush=True)


torch.manual_seed(0)
blocks = nn.Sequential(*(Block() for _ in range(3)))
for b in blocks:
    parallelize_module(b, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
opt = torch.optim.AdamW(blocks.parameters(), lr=1e-3, foreach=False)

torch.manual_seed(10 + mesh["dp"].get_local_rank())
for step in range(1, 2001):
    x = torch.randn(16, 64)
    loss = (blocks(x) - x.flip(-1)).pow(2).mean()
    loss.backward()
    for p in blocks.parameters():
        g = p.grad.to_local() if hasattr(p.grad, "to_local") else p.grad
        dist.all_reduce(g, group=dp)
        g /= 2
    opt.step()
    opt.zero_grad()
    if step % 250 == 0:
        log_norms(step, blocks)
dist.destroy_process_group()
