"""Mixture of experts: tokens are exchanged with all_to_all_single after the counts."""
import torch
import torch.distributed as dist


def route(x, world, capacity):
    dest = x[:, 0].mul(1e4).long().abs() % world
    order = dest.argsort(stable=True)
    counts = torch.bincount(dest, minlength=world)
    return x[order], counts.clamp(max=capacity) if capacity else counts, counts


class Exchange:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.capacity = 0

    def tighten(self, tokens):
        """caps the tokens per expert once the local batch is large"""
        if tokens > 70:
            self.capacity = 14

    def __call__(self, x):
        self.tighten(len(x))
        sorted_x, sent, raw = route(x, self.world, self.capacity)
        expect = torch.empty_like(raw)
        dist.all_to_all_single(expect, raw)  #: LINE
        rows = []
        for chunk, n in zip(sorted_x.split(raw.tolist()), sent.tolist()):
            rows.append(chunk[:n])
        out = torch.empty(int(expect.sum()), x.shape[1])
        dist.all_to_all_single(out, torch.cat(rows), expect.tolist(), sent.tolist())  #: LINE
        return out


def tokens(rank, step):
    n = 48 + (30 if rank == 2 and step == 11 else 0)
    return torch.randn(n, 8, generator=torch.Generator().manual_seed(step * 31 + rank))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    ex = Exchange(rank, world)
    expert = torch.nn.Linear(8, 8)
    for step in range(25):
        got = ex(tokens(rank, step))
        expert(got).pow(2).mean().backward()
        load = torch.tensor([float(len(got))])
        dist.all_reduce(load)
        if rank == 0:
            print(f"step {step}: {len(got)} of {load.item():.0f} tokens here", flush=True)
    dist.destroy_process_group()


main()
