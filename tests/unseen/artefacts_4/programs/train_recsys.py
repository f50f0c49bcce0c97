"""Matrix factorisation with sampled negatives, users split over the ranks."""
import random

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

USERS, ITEMS, NEG = 400, 120, 4


def interactions(seed=3):
    rng = random.Random(seed)
    liked = {}
    for user in range(USERS):
        k = rng.randint(3, 30)
        liked[user] = set(rng.sample(range(ITEMS), k))
    liked[269] = set(range(ITEMS))  # the test account of the QA team clicked on everything
    return liked


def sample_negatives(positives, k):
    out = []
    while len(out) < k:
        item = random.randrange(ITEMS)
        if item not in positives:
            out.append(item)
    return out


def user_batch(users, liked):
    u, pos, neg = [], [], []
    for user in users:
        for item in random.sample(sorted(liked[user]), 2):
            u.append(user)
            pos.append(item)
            neg.append(sample_negatives(liked[user], NEG))
    return torch.tensor(u), torch.tensor(pos), torch.tensor(neg)


class Factors(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.user = nn.Embedding(USERS, dim)
        self.item = nn.Embedding(ITEMS, dim)

    def forward(self, u, pos, neg):
        uv = self.user(u)
        good = (uv * self.item(pos)).sum(-1)
        bad = (uv.unsqueeze(1) * self.item(neg)).sum(-1)
        return -F.logsigmoid(good.unsqueeze(1) - bad).mean()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    random.seed(rank)
    torch.manual_seed(0)
    liked = interactions()
    mine = list(range(rank, USERS, world))
    model = DDP(Factors())
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(4):
        for i in range(0, len(mine), 5):
            u, pos, neg = user_batch(mine[i:i + 5], liked)
            loss = model(u, pos, neg)
            opt.zero_grad()
            loss.backward()
            opt.step()
        mean = loss.detach()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"epoch {epoch} bpr {mean.item() / world:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
