"""Masked token pre-training of a small encoder."""
import argparse
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

MASK, VOCAB = 1, 2000


class Encoder(nn.Module):
    def __init__(self, dim=64, heads=4, layers=2, length=48):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(torch.zeros(length, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, batch_first=True)
        self.body = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        return self.head(self.body(self.tok(ids) + self.pos))


def batches(rank, size, length=48):
    g = torch.Generator().manual_seed(1234 + rank)
    while True:
        ids = torch.randint(2, VOCAB, (size, length), generator=g)
        masked = torch.rand(ids.shape, generator=g) < 0.15
        yield ids.masked_fill(masked, MASK), ids.masked_fill(~masked, -100)


def schedule(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=3000)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--log-every", type=int, default=20)
    args = p.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Encoder())
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: schedule(s, 100, args.steps))
    loss_fn = nn.CrossEntropyLoss()
    stream = batches(rank, args.batch)

    for step in range(args.steps):
        ids, targets = next(stream)
        logits = model(ids)
        loss = loss_fn(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        opt.zero_grad()
        if step % args.log_every == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step} loss {mean.item() / dist.get_world_size():.3f}", flush=True)

    if rank == 0:
        torch.save(model.module.state_dict(), "mlm.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
