"""Every rank sorts the suffixes of its text part before training; the parts are very uneven."""
import random
import time

import torch
import torch.distributed as dist
from torch import nn


def make_text(rank):
    rnd = random.Random(rank)
    words = ["".join(rnd.choice("abcde") for _ in range(rnd.randint(2, 6))) for _ in range(500)]
    count = 190_000 if rank == 1 else 3_000
    return " ".join(rnd.choice(words) for _ in range(count))


def suffix_table(text):
    """Prefix doubling: slow, but there is nothing to install."""
    n = len(text)
    rank = [ord(c) for c in text]
    step = 1
    order = list(range(n))
    while step < 64:
        key = [(rank[i], rank[i + step] if i + step < n else -1) for i in range(n)]
        order.sort(key=key.__getitem__)
        fresh = [0] * n
        for a, b in zip(order, order[1:]):
            fresh[b] = fresh[a] + (key[a] != key[b])
        rank = fresh
        step *= 2
    return order


def longest_repeats(text, order, top=64):
    found = []
    for a, b in zip(order[::7], order[1::7]):
        k = 0
        while k < 40 and a + k < len(text) and b + k < len(text) and text[a + k] == text[b + k]:
            k += 1
        found.append(k)
    return sorted(found)[-top:]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    t0 = time.time()
    text = make_text(rank)
    feats = longest_repeats(text, suffix_table(text))
    print(f"rank {rank}: {len(text)} characters in {time.time() - t0:.1f} s", flush=True)
    everyone = [None] * world
    dist.all_gather_object(everyone, feats)
    table = torch.tensor([f[:64] for f in everyone], dtype=torch.float32)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(60):
        g = torch.Generator().manual_seed(step * world + rank)
        x = table[rank] / 40 + 0.1 * torch.randn(256, 64, generator=g)
        loss = (net(x) - x.mean(1, keepdim=True)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.03)
        if rank == 0 and step % 20 == 0:
            print("step", step, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
