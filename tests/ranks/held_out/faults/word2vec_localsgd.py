#: n=3 ranks=0 cause=extra_collective tier=error set=3
"""Skip-gram embeddings, local SGD: parameters are averaged every SYNC steps."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F

SYNC = 4
WORDS, DIM = 50, 8


class SkipGram(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = torch.nn.Embedding(WORDS, DIM)
        self.out = torch.nn.Embedding(WORDS, DIM)

    def forward(self, center, ctx):
        score = (self.inp(center) * self.out(ctx)).sum(-1)
        return -F.logsigmoid(score).mean()


class PeriodicAverager:
    def __init__(self, model):
        self.model = model
        self.rounds = 0

    @torch.no_grad()
    def average(self):
        works = [dist.all_reduce(p, async_op=True) for p in self.model.parameters()]
        for w in works:
            w.wait()
        for p in self.model.parameters():
            p.div_(dist.get_world_size())
        self.rounds += 1


class BestKeeper:
    """Rank 0 keeps a record of the best averaged model after a burn-in."""

    def __init__(self, burn_in):
        self.best = float("inf")
        self.burn_in = burn_in
        self.record = None

    def consider(self, loss, rounds, gen):
        if rounds < self.burn_in or loss >= self.best:
            return
        self.best = loss
        self.record = {"loss": loss, "rounds": rounds, "rng": rng_states(gen)}


def rng_states(gen):
    out = [None] * dist.get_world_size()
    print("FREEZE", time.time(), flush=True)
    dist.all_gather_object(out, gen.get_state().sum().item())  #: LINE
    return out


def pairs(gen):
    time.sleep(0.15)
    c = torch.randint(0, WORDS, (16,), generator=gen)
    return c, (c + 1) % WORDS


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(5)
    model = SkipGram()
    gen = torch.Generator().manual_seed(rank)
    averager, keeper = PeriodicAverager(model), BestKeeper(burn_in=6)
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(1, 101):
        loss = model(*pairs(gen))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % SYNC == 0:
            averager.average()
            if rank == 0:
                print(f"round {averager.rounds} loss {loss.item():.3f}", flush=True)
                keeper.consider(loss.item(), averager.rounds, gen)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
