import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from rollback import Rollback


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.mix(self.first(x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(n, length, width))
        return x + self.wide(self.second(x))


class Ledger(nn.Module):
    """Tells the next entry of a book of accounts."""

    def __init__(self, entries=300, width=256, blocks=2, length=48):
        super().__init__()
        self.entry, self.place = nn.Embedding(entries, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, entries)

    def forward(self, book):
        x = self.entry(book) + self.place.weight[:book.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main(steps=60, batch=3, length=48):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = Ledger()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    rollback = Rollback(model, optimizer, every=100)
    torch.manual_seed(1 + dist.get_rank())
    books = (torch.randint(0, 40, (600, length + 1)).cumsum(1)) % 300
    times = []
    for step in range(steps):
        began = time.perf_counter()
        book = books[torch.randint(0, len(books), (batch,))]
        loss = F.cross_entropy(model(book[:, :-1]).flatten(0, 1), book[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
        if rollback.guard(norm):
            optimizer.step()
            rollback.keep()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f} after {len(times)} steps, {rollback.times} times back")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
