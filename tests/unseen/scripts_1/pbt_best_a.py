"""Population based training: every rank is one member, the best weights are copied to all."""
import copy
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


class Member:
    LRS = (0.1, 0.02, 0.3)

    def __init__(self, rank):
        torch.manual_seed(0)
        self.net = nn.Linear(6, 1)
        self.lr = self.LRS[rank % len(self.LRS)]
        self.gen = torch.Generator().manual_seed(300 + rank)
        vg = torch.Generator().manual_seed(1)
        self.vx = torch.randn(200, 6, generator=vg)
        self.truth = torch.arange(6.0).unsqueeze(1) / 3
        self.steps = 0

    def fit(self, n):
        for _ in range(n):
            x = torch.randn(2, 6, generator=self.gen)
            y = x @ self.truth + 1.5 * torch.randn(2, 1, generator=self.gen)
            loss = nn.functional.mse_loss(self.net(x), y)
            self.net.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p in self.net.parameters():
                    p -= self.lr * p.grad
            self.steps += 1

    @torch.no_grad()
    def score(self):
        return nn.functional.mse_loss(self.net(self.vx), self.vx @ self.truth)


def winner(loss):
    losses = [torch.zeros_like(loss) for _ in range(dist.get_world_size())]
    dist.all_gather(losses, loss)
    return int(torch.stack(losses).argmin())


def copy_from(net, src):
    for p in net.parameters():
        dist.broadcast(p.data, src=src)


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    member = Member(rank)
    best_ever, kept = float("inf"), None
    for rnd in range(8):
        member.fit(4)
        loss = member.score()
        src = winner(loss)
        copy_from(member.net, src)
        now = member.score().item()
        if now < best_ever:
            best_ever, kept = now, copy.deepcopy(member.net.state_dict())
        if rank == 0:
            print(f"round {rnd}: member {src} wins, val {now:.4f}")
    dist.barrier()
    if rank == 0:
        print("best", round(best_ever, 4), "tensors", len(kept))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
