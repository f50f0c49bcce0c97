import math
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class LM(nn.Module):
    """A very small next-token model."""

    def __init__(self, vocab=20, dim=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.mix = nn.Sequential(nn.Linear(dim, dim), nn.GELU())
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.mix(self.emb(ids)))


def documents(n, seed):
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 20, (9,), generator=g) for _ in range(n)]


def to_batches(docs, size):
    return [torch.stack(docs[i:i + size]) for i in range(0, len(docs), size)]


def nll(model, ids):
    logits = model(ids[:, :-1])
    return nn.functional.cross_entropy(
        logits.reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1), reduction="sum"
    )


@torch.no_grad()
def perplexity(model, docs, rank, world, size=2):
    mine = to_batches(docs[rank::world], size)
    rounds = math.ceil(math.ceil(len(docs) / world) / size)
    stats = torch.zeros(2, dtype=torch.float64)
    for i in range(rounds):
        if i < len(mine):
            stats[0] += nll(model, mine[i]).item()
            stats[1] += mine[i][:, 1:].numel()
        else:
            model(torch.zeros(1, 8, dtype=torch.long))      # keep the shards in step
    dist.all_reduce(stats)
    return math.exp(stats[0] / stats[1])


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(9)
    model = LM()
    fully_shard(model.mix)
    fully_shard(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    train, held = documents(30, 1), documents(14, 2)
    for epoch in range(2):
        for ids in to_batches(train[rank::world], 5):
            loss = nll(model, ids) / ids.numel()
            loss.backward()
            opt.step()
            opt.zero_grad()
        ppl = perplexity(model, held, rank, world)
        if rank == 0:
            print(f"epoch {epoch} perplexity {ppl:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
