"""Language-model-like training where an optimizer step is made per token budget, not per batch."""
import contextlib
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB = 40


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 12, padding_idx=0)
        self.out = nn.Linear(12, VOCAB)

    def forward(self, ids):
        return self.out(self.emb(ids).cumsum(1))


class Documents:
    """Every process reads its own archive; lengths differ between documents."""

    def __init__(self, rank, count):
        self.g = torch.Generator().manual_seed(rank)
        self.rank, self.count = rank, count

    def __iter__(self):
        for i in range(self.count):
            long_archive = self.rank == 2 and i >= 9
            length = 24 if long_archive else 16
            yield torch.randint(1, VOCAB, (4, length), generator=self.g)


class Budget:
    def __init__(self, tokens, world):
        self.tokens, self.world, self.seen = tokens, world, 0.0

    def add(self, ids):
        """True when this batch completes a step."""
        count = torch.tensor(float(ids.numel()))
        dist.all_reduce(count)
        self.seen += count.item() / self.world
        if self.seen >= self.tokens:
            self.seen = 0.0
            return True
        return False


def main():
    dist.init_process_group("gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(0)
    model = DDP(Encoder())
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    budget = Budget(tokens=192, world=world)
    running = torch.zeros(2)
    for i, ids in enumerate(Documents(rank, 24), start=1):
        boundary = budget.add(ids)
        with contextlib.nullcontext() if boundary else model.no_sync():
            logits = model(ids[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
        running += torch.stack([loss.detach(), torch.tensor(1.0)])
        if boundary:
            opt.step()
            opt.zero_grad()
        if i % 6 == 0:
            total = running.clone()
            dist.all_reduce(total)
            if rank == 0:
                print(f"batch {i}: loss {total[0] / total[1]:.3f}", flush=True)
            running.zero_()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
