"""Secondary structure of proteins: a residual convolution network on two ranks."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from buckets import Buckets
from pace import Pace

STEPS = 60


class Folder(nn.Module):
    def __init__(self, width=96, depth=7):
        super().__init__()
        self.embed = nn.Embedding(21, width)
        self.layers = nn.ModuleList(nn.Linear(width * 3, width) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            near = torch.cat([x.roll(1, 1), x, x.roll(-1, 1)], -1)
            x = x + F.gelu(layer(near))
        return self.head(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Folder())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    buckets = Buckets(rank)
    pace = Pace()
    for step in range(STEPS):
        ids, structure = buckets.batch(step)
        logits = model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1), structure.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        pace.tick()
        if rank == 0 and step % 20 == 0:
            print(f"{step}: {loss.item():.4f}, longest {ids.shape[1]}")
    if rank == 0:
        pace.report()
    dist.barrier()
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
