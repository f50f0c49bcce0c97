import random
import time
import torch
import torch.nn as nn
import clockdev as dev

STEPS, KEEP, BATCH = 36, 2048, 32


class Replay:
    """Transitions with a priority each; the batch is drawn by priority."""

    def __init__(self):
        self.obs = torch.randn(KEEP, 12)
        self.act = torch.randint(0, 4, (KEEP,))
        self.rew = torch.randn(KEEP)
        self.priority = [1.0] * KEEP
        self.rng = random.Random(5)

    def draw(self):
        at = torch.tensor(self.rng.choices(range(KEEP), weights=self.priority, k=BATCH))
        return at, self.obs[at], self.act[at], self.rew[at]

    def refresh(self, where, error):
        for i, e in zip(where.tolist(), error):
            self.priority[i] = 0.1 + abs(e)


def play(replay, n=6):
    """The game answers over the wire; its moves overwrite the oldest ones."""
    for _ in range(n):
        time.sleep(0.007)
        k = replay.rng.randrange(KEEP)
        replay.obs[k] = torch.randn(12)
        replay.rew[k] = replay.rng.random()


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 4))
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    replay = Replay()
    begin = time.perf_counter()
    for step in range(STEPS):
        where, obs, act, rew = replay.draw()
        q = dev.upload(net(obs))
        dev.kernel(16)
        picked = q.gather(1, act[:, None]).squeeze(1)
        error = picked - dev.upload(rew)
        loss = error.square().mean()
        opt.zero_grad()
        dev.kernel(20)
        loss.backward()
        opt.step()
        replay.refresh(where, error.detach().tolist())  #: LINE
        play(replay)
    dev.settle()
    print(f"replay {KEEP}: {(time.perf_counter() - begin) / STEPS * 1e3:.2f} ms/step")


main()
