import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F


def record(count=1200, frames=48, bands=40, moods=4):
    """The hum of hives, in bands and frames, and the mood the keeper wrote down."""
    mood = torch.randint(0, moods, (count,))
    return torch.randn(moods, 1, bands)[mood] + 2 * torch.randn(count, frames, bands), mood


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        q, k, v = self.mix(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Hum(nn.Module):
    def __init__(self, bands=40, width=160, heads=4, depth=2, moods=4):
        super().__init__()
        self.enter = nn.Linear(bands, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.leave = nn.Linear(width, moods)

    def forward(self, x):
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return self.leave(x.mean(1))


def share_out(model):
    """Each rank keeps its half of the weights."""
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=False)
    fully_shard(model, reshard_after_forward=False)
