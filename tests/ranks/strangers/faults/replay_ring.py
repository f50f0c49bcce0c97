#: n=4 ranks=* cause=cycle_p2p tier=error set=2
"""Distributed RL: each rank keeps a replay buffer, and every few updates a
slice of it travels along a ring, so that all learners see varied experience.
The distance of the hop grows over time."""
import argparse
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

OBS, ACTIONS, SLICE = 6, 3, 24


class QNet(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(OBS, 24), nn.ReLU(), nn.Linear(24, ACTIONS))


class Replay:
    """Rows are (obs, action, reward)."""

    def __init__(self, rank, capacity=96):
        g = torch.Generator().manual_seed(rank)
        self.rows = torch.rand(capacity, OBS + 2, generator=g)
        self.gen = g
        self.cursor = 0

    def sample(self, n=16):
        idx = torch.randint(len(self.rows), (n,), generator=self.gen)
        rows = self.rows[idx]
        return rows[:, :OBS], (rows[:, OBS] * ACTIONS).long(), rows[:, OBS + 1]

    def export(self):
        lo = self.cursor % (len(self.rows) - SLICE)
        self.cursor += SLICE
        return self.rows[lo : lo + SLICE].clone()

    def absorb(self, block):
        self.rows = torch.cat([self.rows[len(block):], block])


def hop_length(exchange, world):
    """1, 1, 2, 2, 3, 3, ... never a full turn."""
    return 1 + (exchange // 2) % (world - 1)


def ring_exchange(replay, exchange, rank, world):
    hop = hop_length(exchange, world)
    dst, src = (rank + hop) % world, (rank - hop) % world
    outgoing, incoming = replay.export(), torch.empty(SLICE, OBS + 2)
    if rank == 0 and hop > 1:
        print("FREEZE", time.time(), flush=True)
    # neighbours take turns: even ranks talk first, odd ranks listen first
    if rank % 2 == 0:
        dist.send(outgoing, dst)
        dist.recv(incoming, src)
    else:
        dist.recv(incoming, src)
        dist.send(outgoing, dst)
    replay.absorb(incoming)


def td_update(net, opt, replay, world):
    obs, action, reward = replay.sample()
    q = net(obs).gather(1, action.unsqueeze(1)).squeeze(1)
    loss = nn.functional.smooth_l1_loss(q, reward)
    opt.zero_grad()
    loss.backward()
    for p in net.parameters():
        dist.all_reduce(p.grad)
        p.grad.div_(world)
    opt.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--exchange-every", type=int, default=8)
    args = parser.parse_args()

    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = QNet()
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    replay = Replay(rank)
    exchange = 0
    for update in range(1, args.updates + 1):
        time.sleep(0.15)  # environment steps
        loss = td_update(net, opt, replay, world)
        if update % args.exchange_every == 0:
            ring_exchange(replay, exchange, rank, world)
            exchange += 1
        if rank == 0 and update % 10 == 0:
            print(f"update {update} td-loss {loss:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
