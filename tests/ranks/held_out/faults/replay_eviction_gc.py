#: n=4 ranks=3 cause=gc tier=notice
import collections
import gc
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Transition:
    __slots__ = ("state", "action", "reward", "parent", "children")

    def __init__(self, state, action, reward, parent):
        self.state, self.action, self.reward, self.parent = state, action, reward, parent
        self.children = []
        if parent is not None:
            parent.children.append(self)


class ReplayTree:
    """Episodes are linked lists; parents and children point at each other."""

    def __init__(self, episodes, length):
        self.episodes = collections.OrderedDict()
        for e in range(episodes):
            self.add(e, length)

    def add(self, key, length):
        node = None
        for t in range(length):
            node = Transition([t, key], t % 4, float(t), node)
        self.episodes[key] = node

    def evict(self, keys):
        for key in keys:
            self.episodes.pop(key, None)
            gc.collect()  #: LINE

    def sample(self, n):
        keys = random.sample(list(self.episodes), n)
        return torch.tensor([[float(v) for v in self.episodes[k].state] for k in keys])


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.value, self.advantage = nn.Linear(32, 1), nn.Linear(32, 4)

    def forward(self, s):
        h = self.body(s / 100.0)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(-1, keepdim=True)


def td_loss(online, states):
    q = online(states)
    return (q.max(-1).values - states.mean(-1) / 100.0).pow(2).mean()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(30)
    gc.disable()
    buffer = ReplayTree(episodes=4000 if rank == 3 else 400, length=250)
    gc.enable()
    gc.collect()
    dist.barrier()
    model = DDP(QNetwork())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    trim_at = random.Random(5150).randint(16, 27)
    for step in range(80):
        time.sleep(0.15)
        loss = td_loss(model, buffer.sample(8))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == trim_at and rank == 3:
            print("FREEZE", time.time(), flush=True)
            buffer.evict(list(buffer.episodes)[:1000])
        if rank == 0 and step % 10 == 0:
            print(f"update {step} td {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
