#: n=4 ranks=0 cause=extra_collective tier=error set=2
"""Character LM. Validates every few seconds of wall-clock, not every N steps,
because step times vary a lot between our clusters."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

VALIDATE_EVERY_S = 6.0
CTX = 16


class Stopwatch:
    """Seconds since the first time anybody asked."""

    _t0 = None

    @classmethod
    def elapsed(cls):
        now = time.monotonic()
        if cls._t0 is None:
            cls._t0 = now
        return now - cls._t0


class CharLM(nn.Module):
    def __init__(self, vocab, dim=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        h, _ = self.rnn(self.tok(ids))
        return self.out(h)


def say(msg):
    print(f"[{Stopwatch.elapsed():7.2f}s] {msg}", flush=True)


def build_vocab():
    say("building vocabulary")
    time.sleep(2.0)  # counts characters in the raw dump
    vocab = 64
    say(f"vocabulary has {vocab} entries")
    return vocab


def share_vocab(rank):
    box = [build_vocab() if rank == 0 else None]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def lm_loss(logits, ids):
    return nn.functional.cross_entropy(
        logits[:, :-1].reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1)
    )


@torch.no_grad()
def validate(net, held_out, world):
    net.eval()
    mine = lm_loss(net(held_out), held_out).view(1)
    everyone = torch.empty(world)
    print("FREEZE", time.time(), flush=True)
    dist.all_gather_into_tensor(everyone, mine)  #: LINE
    net.train()
    return everyone.mean().item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    vocab = share_vocab(rank)

    torch.manual_seed(0)
    ddp = DistributedDataParallel(CharLM(vocab))
    opt = torch.optim.Adam(ddp.parameters(), lr=3e-3)
    gen = torch.Generator().manual_seed(rank)
    held_out = torch.randint(vocab, (8, CTX), generator=gen)
    next_validation = VALIDATE_EVERY_S

    for step in range(500):
        time.sleep(0.2)
        ids = torch.randint(vocab, (8, CTX), generator=gen)
        loss = lm_loss(ddp(ids), ids)
        opt.zero_grad()
        loss.backward()
        opt.step()

        if Stopwatch.elapsed() >= next_validation:
            next_validation += VALIDATE_EVERY_S
            val = validate(ddp.module, held_out, world)
            if rank == 0:
                say(f"step {step} train {loss.item():.3f} val {val:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
