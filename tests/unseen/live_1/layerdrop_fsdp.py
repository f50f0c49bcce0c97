"""FSDP2 transformer-ish stack with stochastic depth."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n = nn.LayerNorm(d)
        self.a = nn.Linear(d, 2 * d)
        self.b = nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(self.n(x))))


class Stack(nn.Module):
    def __init__(self, d=32, depth=5, drop=0.04):
        super().__init__()
        self.layers = nn.ModuleList(Layer(d) for _ in range(depth))
        self.head = nn.Linear(d, d)
        self.drop = drop

    def forward(self, x):
        for layer in self.layers:
            if self.training and torch.rand(()).item() < self.drop:  #: LINE
                continue
            x = layer(x)
        return self.head(x)


def shard(model, mesh):
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(0)
    model = shard(Stack(), mesh)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    torch.manual_seed(680 + rank)
    for step in range(60):
        x = torch.randn(6, 32)
        loss = (model(x) - x.roll(1, 0)).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
