"""A model with sharded parameters (ZeRO-3, by FSDP2) whose settings make it slow, and the same with those cured.

``zero3_slow.py``: every layer is a unit of its own, norms of 2 KiB among them, and gives its parameters back after each
forward and each backward of two micro-batches. ``zero3_slow.py cured``: one unit a block, kept until the step is over.
The losses are the same.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

STEPS, MICRO_BATCHES, WIDTH, BLOCKS = 30, 2, 256, 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def shard(model, is_cured):
    for block in model:
        if is_cured:
            fully_shard(block, reshard_after_forward=False)
        else:
            for layer in (block.norm, block.up, block.down):
                fully_shard(layer, reshard_after_forward=True)
    fully_shard(model, reshard_after_forward=not is_cured)


def main(is_cured):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(BLOCKS)))
    shard(model, is_cured)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randn(MICRO_BATCHES, 8, WIDTH)
    for _ in range(STEPS):
        for number, x in enumerate(data):
            is_last = number == MICRO_BATCHES - 1
            model.set_requires_gradient_sync(is_last)
            if is_cured:
                model.set_reshard_after_backward(is_last)
            loss = model(x).square().mean() / MICRO_BATCHES
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
    dist.destroy_process_group()


main("cured" in sys.argv[1:])
