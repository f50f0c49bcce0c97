import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        x = x + torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return x + self.feed(self.norm(x))


class LanguageId(nn.Module):
    """Which of 40 languages a line of bytes is in."""

    def __init__(self, width=160, depth=3, languages=40):
        super().__init__()
        self.bytes = nn.Embedding(256, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.scale = nn.Parameter(torch.ones(2))
        self.out = nn.Linear(width, languages)

    def forward(self, line):
        h = self.bytes(line)
        for block in self.blocks:
            h = block(h)
        return self.out(self.scale[0] * h.mean(1) + self.scale[1] * h.amax(1))


def sharded(world):
    mesh = init_device_mesh("cpu", (world,))
    model = LanguageId()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@torch.no_grad()
def weight_norm(model):
    return sum(p.full_tensor().square().sum() for p in model.parameters()).sqrt().item()
