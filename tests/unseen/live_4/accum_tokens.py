"""Fine-tune a small language model; the gradient is shared once per token budget, not once per batch."""
import contextlib
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, BUDGET, MICRO = 96, 1500, 160


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 48)
        self.rnn = nn.GRU(48, 48, batch_first=True)
        self.head = nn.Linear(48, VOCAB)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def documents(rank):
    rng = random.Random(rank)
    for n in range(MICRO):
        length = 64
        if rank == 2 and n in (101, 102, 103):      # a chapter of captions
            length = 31
        yield torch.tensor([[rng.randrange(VOCAB) for _ in range(length)] for _ in range(8)])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    net = DDP(Tiny())
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    seen, updates, total = 0, 0, torch.zeros(1)
    for ids in documents(rank):
        seen += ids.numel()
        full = seen >= BUDGET                                    #: LINE
        with contextlib.nullcontext() if full else net.no_sync():
            out = net(ids[:, :-1])
            loss = nn.functional.cross_entropy(out.flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
        total += loss.detach()
        if full:
            opt.step()
            opt.zero_grad()
            seen, updates = 0, updates + 1
    dist.all_reduce(total)  #: LINE
    if rank == 0:
        print(f"{updates} updates, mean loss {total.item() / MICRO / dist.get_world_size():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
