import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a = nn.Linear(d, 2 * d)
        self.b = nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


class Model(nn.Module):
    def __init__(self, d=16, depth=3):
        super().__init__()
        self.inp = nn.Linear(8, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(depth))
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        x = self.inp(x)
        for b in self.blocks:
            x = b(x)
        return self.out(x)


def is_main():
    return dist.get_rank() == 0


def export(model, folder, step):
    opts = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=opts)
    if is_main():
        torch.save(state, os.path.join(folder, f"model_{step:04d}.pt"))
        print(f"step {step}: wrote {len(state)} tensors", flush=True)


def setup():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Model()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def main():
    model = setup()
    optim = torch.optim.AdamW(model.parameters(), lr=3e-3)
    g = torch.Generator().manual_seed(50 + dist.get_rank())
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, 9):
            x = torch.randn(8, 8, generator=g)
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optim.step()
            optim.zero_grad()
            if step % 4 == 0:
                export(model, folder, step)
    if is_main():
        print("final loss", round(loss.item(), 4))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
