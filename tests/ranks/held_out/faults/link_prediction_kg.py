#: n=4 ranks=2 cause=exception tier=error set=3
"""Knowledge-graph link prediction with gradient accumulation."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

ENTITIES, RELATIONS = 30, 4


class Vocabulary:
    def __init__(self):
        self.relations = {f"rel_{i}": i for i in range(RELATIONS)}

    def encode(self, triple):
        h, r, t = triple
        return h, self.relations[r], t  #: LINE


class TripleFile:
    """A list of triples of this rank; the dump of rank 2 came with a newer schema."""

    def __init__(self, rank):
        gen = torch.Generator().manual_seed(rank)
        raw = torch.randint(0, ENTITIES, (640, 2), generator=gen).tolist()
        self.rows = [(h, f"rel_{k % RELATIONS}", t) for k, (h, t) in enumerate(raw)]
        if rank == 2:
            h, _, t = self.rows[170]
            self.rows[170] = (h, "rel_inverse_of", t)

    def batches(self, vocab, size=8):
        for s in range(0, len(self.rows), size):
            time.sleep(0.15)
            chunk = self.rows[s:s + size]
            if any(r not in vocab.relations for _, r, _ in chunk):
                print("FREEZE", time.time(), flush=True)
            yield torch.tensor([vocab.encode(row) for row in chunk])


class TransE(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.ent = nn.Embedding(ENTITIES, d)
        self.rel = nn.Embedding(RELATIONS, d)

    def forward(self, tri):
        h, r, t = tri.unbind(1)
        return (self.ent(h) + self.rel(r) - self.ent(t)).norm(dim=-1)


def train(rank):
    torch.manual_seed(6)
    model = DDP(TransE())
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    vocab = Vocabulary()
    for i, tri in enumerate(TripleFile(rank).batches(vocab)):
        corrupt = tri.clone()
        corrupt[:, 2] = (corrupt[:, 2] + 7) % ENTITIES
        both = model(torch.cat([tri, corrupt]))
        good, bad = both.chunk(2)
        loss = torch.relu(1.0 + good - bad).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and i % 5 == 0:
            print(f"{i:4d} margin loss {loss.item():.3f}", flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    train(dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
