#: n=4 ranks=2 cause=store_wait tier=error
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class RoundToken:
    """Rank 0 opens every round in the store once its curriculum decision is made."""

    def __init__(self, rank):
        self.rank = rank
        self.store = dist.PrefixStore("curriculum", dist.distributed_c10d._get_default_store())
        self.number = 0

    def next(self, difficulty):
        key = f"round/{self.number}"
        if self.rank == 0:
            self.store.set(key, str(difficulty))
        else:
            self.store.wait([key], timedelta(minutes=20))  #: LINE
            difficulty = float(self.store.get(key))
        self.number += 1
        return difficulty


class NanWatch:
    def __init__(self, rank, at):
        self.rank, self.at = rank, at

    def restore_needed(self, step):
        return self.rank == 2 and step == self.at


class Sorter(nn.Module):
    def __init__(self, length=8):
        super().__init__()
        self.lift = nn.Linear(1, 24)
        self.attn = nn.MultiheadAttention(24, 4, batch_first=True)
        self.rank_head = nn.Linear(24, 1)

    def forward(self, x):
        h = self.lift(x.unsqueeze(-1))
        h, _ = self.attn(h, h, h, need_weights=False)
        return self.rank_head(h).squeeze(-1)


def problems(difficulty, batch=6, length=8):
    time.sleep(0.13)
    x = torch.randn(batch, length) * difficulty
    return x, x.argsort(-1).argsort(-1).float() / length


def restore(model, snapshot, token):
    model.load_state_dict(snapshot)
    token.number += 5
    print("FREEZE", time.time(), flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(66)
    model = DDP(Sorter())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    token = RoundToken(rank)
    watch = NanWatch(rank, random.Random(747).randint(16, 29))
    snapshot = {k: v.clone() for k, v in model.state_dict().items()}
    difficulty = 1.0
    for step in range(90):
        difficulty = token.next(difficulty)
        x, y = problems(difficulty)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            difficulty = min(4.0, difficulty * 1.02)
        if step % 5 == 0:
            snapshot = {k: v.clone() for k, v in model.state_dict().items()}
        if watch.restore_needed(step):
            restore(model, snapshot, token)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
