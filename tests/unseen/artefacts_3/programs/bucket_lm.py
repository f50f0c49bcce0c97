"""Language model on padded buckets. Losses are summed over the ranks, counters on a group of their own."""
import datetime

import torch
import torch.distributed as dist
import torch.nn as nn

import flightrec  # noqa: F401


class Sums:
    """Running sums by name. Every name has its group."""

    def __init__(self, groups):
        self.groups = groups
        self.sums = {}

    def add(self, name, value):
        self.sums[name] = self.sums.get(name, 0.0) + float(value)

    def reduce(self):
        out = {}
        for name, value in self.sums.items():
            t = torch.tensor([value])
            dist.all_reduce(t, group=self.groups[name])
            out[name] = t.item()
        self.sums.clear()
        return out


class Bigram(nn.Module):
    def __init__(self, vocab=120, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids, mask):
        logits = self.out(self.emb(ids[:, :-1]))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        m = mask[:, 1:].flatten()
        return (loss * m).sum() / m.sum()


def buckets(rank, n, micro):
    g = torch.Generator().manual_seed(300 + rank)
    for _ in range(n):
        out = []
        for _ in range(micro):
            ids = torch.randint(1, 120, (6, 18), generator=g)
            keep = torch.rand(6, generator=g) > 0.4
            mask = keep[:, None].expand(6, 18).float()
            out.append((ids, mask))
        yield out


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    counters = dist.new_group(timeout=datetime.timedelta(hours=2))
    sums = Sums({"loss": dist.group.WORLD, "skipped": counters})
    torch.manual_seed(0)
    model = Bigram()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, batch in enumerate(buckets(rank, n=2000, micro=2), 1):
        opt.zero_grad(set_to_none=False)
        for ids, mask in batch:
            if mask.sum() == 0:
                sums.add("skipped", 1)
                continue
            loss = model(ids, mask)
            loss.backward()
            sums.add("loss", loss.item())
            sums.add("skipped", 0)
        for p in model.parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad)
            p.grad /= world * len(batch)
        opt.step()
        seen = sums.reduce()
        if rank == 0 and step % 25 == 0:
            print(f"step {step}", {k: round(v, 3) for k, v in seen.items()}, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
