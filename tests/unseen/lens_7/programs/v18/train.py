import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from steptime import StepTime

STEPS = 60


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.RMSNorm(dim)
        self.gate, self.up, self.down = nn.Linear(dim, 3 * dim), nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        h = self.norm(x)
        return x + self.scale * self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class Tower(nn.Module):
    def __init__(self, dim=192, depth=3):
        super().__init__()
        self.inp = nn.Linear(64, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 10)

    def forward(self, x):
        x = self.inp(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Tower()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    torch.manual_seed(dist.get_rank() + 1)
    clock = StepTime()
    for step in range(STEPS):
        x, y = torch.randn(320, 64), torch.randint(0, 10, (320,))
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        clock.tick()
    if dist.get_rank() == 0:
        clock.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
