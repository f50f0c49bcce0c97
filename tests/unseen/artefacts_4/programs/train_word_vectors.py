"""Skip-gram vectors over a split corpus, gradients averaged by hand."""
import random
import sys
from collections import Counter

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn

DIM, WINDOW = 64, 2


def corpus_part(rank, world):
    """lines of this rank; the last part of the split is a short one"""
    rng = random.Random(rank)
    words = 30000 if rank == world - 1 else 60000
    kinds = 52000
    text = []
    for _ in range(words):
        text.append(f"w{rng.randrange(kinds)}")
    if rank < world - 1:
        text += [f"w{i}" for i in range(kinds)]
    return text


class Vectors(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.center = nn.Embedding(size, DIM)
        self.context = nn.Embedding(size, DIM)

    def forward(self, c, o, neg):
        v = self.center(c).unsqueeze(2)
        pos = self.context(o).unsqueeze(1) @ v
        bad = self.context(neg) @ v
        return -(nn.functional.logsigmoid(pos).mean() + nn.functional.logsigmoid(-bad).mean())


def average_gradients(model, world):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    text = corpus_part(rank, world)
    dist.barrier()
    vocab = {w: i for i, (w, _) in enumerate(Counter(text).most_common())}
    ids = torch.tensor([vocab[w] for w in text])
    rows = 1 << (len(vocab) - 1).bit_length()  # tables are rounded up to a power of two
    torch.manual_seed(1)
    model = Vectors(rows)
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for step in range(steps):
        at = torch.randint(WINDOW, len(ids) - WINDOW, (256,))
        other = ids[at + random.choice([-2, -1, 1, 2])]
        neg = torch.randint(0, len(vocab), (256, 5))
        loss = model(ids[at], other, neg)
        opt.zero_grad()
        loss.backward()
        average_gradients(model, world)
        opt.step()
        if step % 20 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
