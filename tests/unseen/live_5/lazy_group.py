"""DDP with hard-example mining: ranks exchange their hardest samples over a group of its own, made when first needed."""
import datetime
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, BATCH, EVERY = 500, 32, 40


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(40, 160), nn.ReLU(), nn.Linear(160, 160), nn.ReLU(), nn.Linear(160, 5))

    def forward(self, x):
        return self.net(x)


class Exchange:
    """Object collectives must not mix with those of DDP, so they have their own group with a long timeout."""

    def __init__(self):
        self._group = None

    @property
    def group(self):
        if self._group is None:
            self._group = dist.new_group(backend="gloo", timeout=datetime.timedelta(hours=1))
        return self._group

    def share(self, samples):
        everybody = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(everybody, samples, group=self.group)
        return [s for part in everybody for s in part]


class Source:
    def __init__(self, rank):
        self.rank, self.g = rank, torch.Generator().manual_seed(rank)

    def batch(self):
        x = torch.randn(BATCH, 40, generator=self.g)
        if self.rank == 2:
            x[:, :5] *= 5  # this site's pictures are well lit
            x[torch.arange(BATCH), torch.randint(0, 5, (BATCH,), generator=self.g)] += 60
        return x, x[:, :5].argmax(1)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Net())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    source, exchange = Source(rank), Exchange()
    hard, extra = [], []
    for step in range(1, STEPS + 1):
        x, y = source.batch()
        if extra:
            more = [extra.pop() for _ in range(min(4, len(extra)))]
            x = torch.cat([x, torch.stack([m[0] for m in more])])
            y = torch.cat([y, torch.stack([m[1] for m in more])])
        each = nn.functional.cross_entropy(model(x), y, reduction="none")
        loss = each.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step >= 100:
            hard += [(x[i], y[i]) for i in (each > 0.9).nonzero().flatten().tolist()]
        if step >= 100 and step % EVERY == 0 and hard:  #: LINE
            extra = exchange.share(hard[:8])
            hard = []
        if step % 50 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step} loss {mean.item() / world:.3f} extra {len(extra)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
