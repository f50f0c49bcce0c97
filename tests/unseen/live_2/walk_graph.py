"""Random-walk embeddings; automatic garbage collection is off and done by hand every ten steps."""
import gc
import random

import torch
import torch.distributed as dist
from torch import nn


class Node:
    __slots__ = ("ident", "links", "visits")

    def __init__(self, ident):
        self.ident, self.links, self.visits = ident, [], {}


def build(n, degree, seed):
    rnd = random.Random(seed)
    nodes = [Node(i) for i in range(n)]
    for v in nodes:
        v.links = [nodes[rnd.randrange(n)] for _ in range(degree)]
        v.visits = {"last": [v], "stamp": [0]}
    return nodes


def walk(nodes, rnd, length):
    v = nodes[rnd.randrange(len(nodes))]
    out = [v.ident]
    for _ in range(length):
        v = v.links[rnd.randrange(len(v.links))]
        out.append(v.ident)
    return out


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    # part 2 of the graph is the whole web domain, the other parts are single sites
    size = 360_000 if rank == 2 else 9_000
    nodes = build(size, 4, rank)
    torch.manual_seed(3)
    emb = nn.Embedding(6_000, 64)
    opt = torch.optim.SGD(emb.parameters(), lr=0.1)
    rnd = random.Random(rank)
    dist.barrier()
    gc.disable()
    for step in range(1, 101):
        walks = torch.tensor([walk(nodes, rnd, 20) for _ in range(300)]) % 6_000
        e = emb(walks)
        near = (e[:, 1:] * e[:, :-1]).sum(-1)
        far = (e[:, 1:] * e.roll(1, 0)[:, :-1]).sum(-1)
        loss = nn.functional.softplus(far - near).mean()
        opt.zero_grad()
        loss.backward()
        dist.all_reduce(emb.weight.grad)
        emb.weight.grad /= world
        opt.step()
        if step % 10 == 0:
            gc.collect()  #: LINE
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
