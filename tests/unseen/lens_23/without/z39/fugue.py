import torch
from torch import nn
from torch.nn import functional as F
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module,
)


class Listen(nn.Module):
    def __init__(self, width, size=48):
        super().__init__()
        self.size = size
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Think(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.up, self.down = (
            nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False),
        )

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Voice(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.listen = nn.LayerNorm(width), Listen(width)
        self.two, self.think = nn.LayerNorm(width), Think(width)

    def forward(self, x):
        x = x + self.listen(self.one(x))
        return x + self.think(self.two(x))


class Fugue(nn.Module):
    def __init__(self, notes=128, width=192, voices=2):
        super().__init__()
        self.note = nn.Embedding(notes, width)
        self.voices = nn.ModuleList(Voice(width) for _ in range(voices))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, notes, bias=False)

    def forward(self, notes):
        x = self.note(notes)
        for voice in self.voices:
            x = voice(x)
        return self.out(self.norm(x))


def split(model, mesh):
    """Norms and sums are split along the time, the products along the width."""
    parallelize_module(model, mesh, {
        "note": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    })
    whole, gather = ColwiseParallel(), PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    for voice in model.voices:
        parallelize_module(voice, mesh, {
            "one": SequenceParallel(),
            "listen": gather, "listen.q": whole, "listen.k": whole, "listen.v": whole,
            "listen.o": RowwiseParallel(output_layouts=Shard(1)),
            "two": SequenceParallel(),
            "think": gather, "think.gate": whole, "think.up": whole,
            "think.down": RowwiseParallel(output_layouts=Shard(1)),
        })
    return model
