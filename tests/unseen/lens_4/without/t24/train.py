"""A learner and its actor: the actor's thread plays games, the learner trains on what has been played."""
import statistics
import time
import torch
from torch import nn
from actor import Actor, Replay


class Value(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, s):
        time.sleep(0.038)  # kernels
        return self.f(s).squeeze(-1)


class Learner:
    def __init__(self, replay):
        self.replay, self.net = replay, Value()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def step(self):
        with self.replay.lock:
            games = self.replay.sample(16)
        states = torch.stack([g[0] for g in games])
        returns = torch.tensor([g[1] for g in games])
        loss = (self.net(states) - returns).square().mean()
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()


def main():
    torch.manual_seed(7)
    replay = Replay(first=40)
    actor = Actor(replay)
    learner = Learner(replay)
    actor.start()
    took = []
    for _ in range(30):
        t = time.perf_counter()
        learner.step()
        took.append(time.perf_counter() - t)
    actor.stop()
    print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")


main()
