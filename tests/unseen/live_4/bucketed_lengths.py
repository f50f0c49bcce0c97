"""Speech: batches of very different length, another rank is the slow one in every step; accumulation of two."""
import contextlib
import os
import random

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(10, 32, batch_first=True)
        self.ctc = nn.Linear(32, 12)

    def forward(self, frames):
        return self.ctc(self.rnn(frames)[0]).log_softmax(-1)


def utterances(rank, n):
    rng = random.Random(17 + rank)
    for _ in range(n):
        length = rng.choice((20, 30, 40, 60, 90, 400))
        yield torch.randn(4, length, 10), torch.randint(1, 12, (4, 8)), length


def evaluate(net, rank):
    """unequal parts: sums and counts are added up, not means"""
    both = torch.zeros(2)
    with torch.no_grad():
        for frames, _, length in utterances(rank + 100, 10 + 5 * rank):
            both += torch.tensor([float(net(frames).exp().max(-1).values.sum()), 4.0 * length])
    dist.all_reduce(both)
    return (both[0] / both[1]).item()


def main():
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    net = DistributedDataParallel(Listener())
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(3):
        for i, (frames, text, length) in enumerate(utterances(rank + 10 * epoch, 70)):
            last = i % 2 == 1
            with contextlib.nullcontext() if last else net.no_sync():
                out = net(frames).transpose(0, 1)
                loss = nn.functional.ctc_loss(out, text, torch.full((4,), length), torch.full((4,), 8))
                (loss / 2).backward()
            if last:
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
        confidence = evaluate(net.module, rank)
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.3f} confidence {confidence:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
