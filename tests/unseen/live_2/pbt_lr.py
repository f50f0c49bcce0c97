"""Population based training: every worker trains its own copy, the best one is copied now and then."""
import math

import torch
import torch.distributed as td
from torch import nn


class Member:
    def __init__(self, rank):
        self.rank = rank
        torch.manual_seed(rank)
        self.lr = 10 ** (-1.0 - 0.4 * rank)
        self.net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
        self.board = torch.full((td.get_world_size(),), math.inf)

    def train_round(self, rnd):
        g = torch.Generator().manual_seed(rnd)
        x = torch.randn(1024, 64, generator=g)
        y = torch.sin(x.sum(1, keepdim=True) * 0.3)
        for _ in range(6):
            loss = (self.net(x) - y).pow(2).mean()
            self.net.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p in self.net.parameters():
                    p -= self.lr * p.grad
        return loss.item()

    def publish(self, score):
        mine = torch.tensor([score])
        out = [torch.zeros(1) for _ in range(len(self.board))]
        td.all_gather(out, mine)
        fresh = torch.cat(out)
        # a member that diverged does not trust its last numbers any more
        if math.isfinite(score):
            self.board = fresh  #: LINE

    def exploit(self):
        winner = int(torch.nan_to_num(self.board, nan=1e9, posinf=1e9).argmin())
        for p in self.net.parameters():
            td.broadcast(p.data, src=winner)
        if winner != self.rank:
            self.lr *= 0.8 if self.rank % 2 else 1.25
        return winner


def main():
    td.init_process_group("gloo")
    me = Member(td.get_rank())
    for rnd in range(1, 41):
        score = me.train_round(rnd)
        if rnd == 20 and me.rank == 0:
            me.lr = 9e9  # what an over-eager perturbation does
            score = me.train_round(rnd)
        me.publish(score)
        if rnd % 4 == 0:
            w = me.exploit()
            if me.rank == 0:
                print(f"round {rnd}: copied member {w}, score {me.board.min():.5f}", flush=True)
            me.lr = min(me.lr, 0.2)
    td.barrier()
    td.destroy_process_group()


if __name__ == "__main__":
    main()
