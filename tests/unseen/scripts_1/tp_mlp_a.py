"""Tensor parallel feed-forward block on a 1-D device mesh."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(x)))


def weight_norms(model):
    """Norm of each full weight, whatever its placement."""
    norms = {}
    for name, p in model.named_parameters():
        w = p.detach()
        if isinstance(w, DTensor):
            w = w.full_tensor()
        norms[name] = w.norm().item()
    return norms


def local_shapes(model):
    return {n: tuple(p.to_local().shape) for n, p in model.named_parameters()}


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    torch.manual_seed(100)
    model = parallelize_module(
        FeedForward(8, 32), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()}
    )
    if rank == 0:
        print("local shapes", local_shapes(model))
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    gen = torch.Generator().manual_seed(0)

    for step in range(8):
        x = torch.randn(6, 8, generator=gen)
        loss = (model(x) - x.flip(1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 4 == 3:
            if rank == 0:
                norms = weight_norms(model)
                text = " ".join(f"{k}={v:.3f}" for k, v in norms.items())
                print(f"step {step} loss {loss.item():.4f} {text}")

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
