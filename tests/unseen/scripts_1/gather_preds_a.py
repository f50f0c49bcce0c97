"""Collect predictions of every rank although the shards have different lengths."""
import torch
import torch.distributed as dist
from datetime import timedelta


class Scorer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.lin = torch.nn.Linear(5, 3)

    @torch.no_grad()
    def forward(self, x):
        return self.lin(x).softmax(dim=-1)


def shard(items, rank, world):
    return items[rank::world]


def gather_rows(t):
    """All rows from all ranks, in rank order; rows per rank may differ."""
    world = dist.get_world_size()
    n = torch.tensor([t.shape[0]])
    sizes = [torch.zeros_like(n) for _ in range(world)]
    dist.all_gather(sizes, n)
    sizes = [int(s) for s in sizes]
    longest = max(sizes)
    padded = t.new_zeros(longest, *t.shape[1:])
    padded[: t.shape[0]] = t
    parts = [t.new_empty(longest, *t.shape[1:]) for s in sizes]
    dist.all_gather(parts, padded)
    return torch.cat([p[:s] for p, s in zip(parts, sizes)])


def accuracy(pred, gold):
    return (pred.argmax(dim=-1) == gold).float().mean().item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    g = torch.Generator().manual_seed(9)
    data = torch.randn(50, 5, generator=g)
    gold = data[:, :3].argmax(dim=-1)

    model = Scorer()
    mine = shard(torch.arange(50), rank, world)
    scores = []
    for ids in mine.split(4):
        scores.append(model(data[ids]))
    scores = torch.cat(scores)

    everything = gather_rows(scores)
    ids = gather_rows(mine)
    if rank == 0:
        back = torch.empty_like(everything)
        back[ids] = everything
        print("rows", tuple(back.shape), "accuracy", accuracy(back, gold))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
