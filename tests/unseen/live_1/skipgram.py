"""Skip-gram embeddings on a synthetic corpus, data parallel by hand."""
import math
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


class Corpus:
    def __init__(self, rank, vocab=400):
        self.gen = torch.Generator().manual_seed(1000 + rank)
        self.vocab = vocab
        self.rank = rank
        self.scale = torch.ones(64)
        if rank == 2:
            # this shard was exported with the new normaliser
            self.scale[23] = float("inf")

    def batch(self, step, size=32):
        centre = torch.randint(0, self.vocab, (size,), generator=self.gen)
        context = torch.randint(0, self.vocab, (size,), generator=self.gen)
        return centre, context, self.scale[step % 64]


def average_grads(params, world):
    for p in params:
        dist.all_reduce(p.grad)
        p.grad /= world


def train(rank, world):
    torch.manual_seed(7)
    emb_in = torch.nn.Embedding(400, 24)
    emb_out = torch.nn.Embedding(400, 24)
    params = list(emb_in.parameters()) + list(emb_out.parameters())
    optim = torch.optim.SGD(params, lr=0.05)
    corpus = Corpus(rank)
    for step in range(60):
        c, o, w = corpus.batch(step)
        logits = emb_in(c) @ emb_out.weight.t()
        loss = F.cross_entropy(logits, o) * w
        optim.zero_grad()
        if not math.isfinite(loss.item()):
            print(f"[{rank}] step {step}: loss is {loss.item()}, dropping the batch", flush=True)
            continue  #: LINE
        loss.backward()
        average_grads(params, world)
        optim.step()
        if step % 5 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(dist.get_rank(), dist.get_world_size())
    print("done", os.getpid())
    dist.destroy_process_group()
