"""FSDP2 on 2 ranks: each layer a group, and all the small gates together in one."""
import statistics
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.g = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x * torch.sigmoid(self.g)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)

    def forward(self, x):
        time.sleep(0.014)  # stands for kernels
        return torch.relu(self.lin(x))


class Gated(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.gates = nn.Sequential(*[Gate(width) for _ in range(6)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.gates(x)


def wrap(model):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model.gates, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = wrap(Gated(256, 3))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    took = []
    for _ in range(30):
        t = time.perf_counter()
        out = model(torch.randn(8, 256))
        (out - 1).square().mean().backward()
        opt.step()
        opt.zero_grad()
        took.append(time.perf_counter() - t)
    if dist.get_rank() == 0:
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


main()
