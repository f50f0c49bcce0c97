#: n=3 ranks=0 cause=lock tier=error set=3
"""Off-policy RL: an actor thread fills a bounded replay buffer, the learner drains it."""
import os
import threading
import time
from collections import deque
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn


class Replay:
    def __init__(self, capacity):
        self.capacity = capacity
        self.items = deque()
        lock = threading.Lock()
        self.has_data = threading.Condition(lock)
        self.has_room = threading.Condition(lock)

    def put(self, item):
        with self.has_room:
            self.has_room.wait_for(lambda: len(self.items) < self.capacity)
            self.items.append(item)
            self.has_data.notify()

    def take(self, n):
        with self.has_data:
            if n > self.capacity:
                print("FREEZE", time.time(), flush=True)
            self.has_data.wait_for(lambda: len(self.items) >= n)  #: LINE
            out = [self.items.popleft() for _ in range(n)]
            self.has_room.notify()
            return out


class Actor(threading.Thread):
    def __init__(self, replay, seed):
        super().__init__(daemon=True, name="actor")
        self.replay = replay
        self.gen = torch.Generator().manual_seed(seed)

    def run(self):
        while True:
            time.sleep(0.01)
            obs = torch.randn(4, generator=self.gen)
            self.replay.put((obs, obs.sum().tanh()))


class Curriculum:
    """Learner batches grow; the first rank hosts the leader and takes larger ones."""

    def __init__(self, rank):
        self.scale = 2 if rank == 0 else 1

    def batch_size(self, step):
        return (8 + 2 * (step // 10)) * self.scale


def sync(net):
    for p in net.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def learn(rank):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    replay, plan = Replay(capacity=20), Curriculum(rank)
    Actor(replay, seed=rank).start()
    for step in range(60):
        batch = replay.take(plan.batch_size(step))
        obs = torch.stack([b[0] for b in batch])
        value = torch.stack([b[1] for b in batch])
        loss = (net(obs).squeeze(-1) - value).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        sync(net)
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"update {step} td-loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    learn(int(os.environ["RANK"]))
    dist.destroy_process_group()
