import statistics
import time

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as wired
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class Pair(nn.Module):
    """Maps the outline of a leaf and the text of its label to the same space."""

    def __init__(self, outline=256, text=128, width=320, space=128):
        super().__init__()
        self.outline = nn.Sequential(nn.Linear(outline, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, space))
        self.text = nn.Sequential(nn.Linear(text, width), nn.SiLU(), nn.Linear(width, space))
        self.scale = nn.Parameter(torch.tensor(2.5))

    def forward(self, outline, text):
        return F.normalize(self.outline(outline), dim=-1), F.normalize(self.text(text), dim=-1), self.scale.exp()


def both_ways(leaves, labels, scale):
    """My leaves against everybody's labels, and my labels against everybody's leaves."""
    all_leaves = torch.cat(wired.all_gather(leaves))
    all_labels = torch.cat(wired.all_gather(labels))
    right = torch.arange(len(leaves)) + dist.get_rank() * len(leaves)
    to_labels = scale * leaves @ all_labels.T
    to_leaves = scale * labels @ all_leaves.T
    return (F.cross_entropy(to_labels, right) + F.cross_entropy(to_leaves, right)) / 2


def herbarium(count=5000, outline=256, text=128):
    hidden = torch.randn(count, 32)
    leaves = (hidden @ torch.randn(32, outline)).sin() + 0.2 * torch.randn(count, outline)
    return leaves, hidden @ torch.randn(32, text) + 0.2 * torch.randn(count, text)


def main(steps=60, batch=480):
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    leaves, labels = herbarium()
    model = DDP(Pair(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    mine = torch.randperm(len(leaves))[dist.get_rank()::dist.get_world_size()]
    times, began = [], time.perf_counter()
    for step in range(steps):
        picked = mine[torch.randint(len(mine), (batch,))]
        loss = both_ways(*model(leaves[picked], labels[picked]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append((now - began) * 1e3)
        began = now
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.barrier()


if __name__ == "__main__":
    main()
