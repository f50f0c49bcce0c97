"""Tells species from the pulses of bats. Tensor parallel: heads and wide layers are cut over the ranks."""
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from split import SplitAttention, SplitMLP


class Bats(nn.Module):
    def __init__(self, ranks, features=24, width=256, heads=8, depth=3, species=9):
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.leave = nn.Linear(width, species)
        torch.manual_seed(60 + dist.get_rank())
        self.attentions = nn.ModuleList(SplitAttention(width, heads, ranks) for _ in range(depth))
        self.wides = nn.ModuleList(SplitMLP(width, 3 * width, ranks) for _ in range(depth))

    def forward(self, pulses):
        x = self.enter(pulses)
        for number, (attention, wide) in enumerate(zip(self.attentions, self.wides)):
            x = x + attention(self.norms[2 * number](x))
            x = x + wide(self.norms[2 * number + 1](x))
        return self.leave(x.mean(1))


def night(count=3000, pulses=40, features=24, species=9):
    kind = torch.randint(0, species, (count,))
    voice = torch.randn(species, 1, features)[kind]
    return voice + 3 * torch.randn(count, pulses, features), kind


def main(steps=60, batch=8):
    dist.init_process_group("gloo")
    torch.manual_seed(6)
    pulses, kind = night()
    model = Bats(dist.get_world_size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    picker = torch.Generator().manual_seed(6)
    times, last = [], time.perf_counter()
    for step in range(steps):
        picked = torch.randint(len(kind), (batch,), generator=picker)
        loss = F.cross_entropy(model(pulses[picked]), kind[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(1e3 * (now - last))
        last = now
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
