import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from parallel import SplitAttention, SplitFeedForward


class Block(nn.Module):
    def __init__(self, width, heads, ranks):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = SplitAttention(width, heads, ranks)
        self.forward_part = SplitFeedForward(width, ranks)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.forward_part(self.norm2(x))


class Riddles(nn.Module):
    def __init__(self, ranks, letters=96, length=48, width=192, heads=6, depth=2):
        super().__init__()
        self.letter = nn.Embedding(letters, width)
        self.place = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.ModuleList(Block(width, heads, ranks) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters)

    def forward(self, letters):
        x = self.letter(letters) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main(steps=60, batch=12, length=40):
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Riddles(ranks, length=length)
    for name, parameter in model.named_parameters():  # the shares differ, the rest is the same
        if "attention" in name or "forward_part" in name:
            nn.init.normal_(parameter, std=0.02, generator=torch.Generator().manual_seed(1000 * rank + len(name)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    made = torch.Generator().manual_seed(3)
    text = (torch.randint(0, 96, (1 << 16,), generator=made).cumsum(0) // 7) % 96
    times = []
    for step in range(steps):
        t0 = time.perf_counter()
        starts = torch.randint(0, len(text) - length - 1, (batch, 1), generator=made)
        window = text[starts + torch.arange(length + 1)]
        loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - t0))
    if rank == 0:
        print(f"last loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
