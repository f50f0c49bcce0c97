import copy
import statistics
import time

import numpy as np
import torch
from torch import nn

from replay import PrioritizedReplay

STATE, ACTIONS, WARM = 24, 6, 60_000


class Dueling(nn.Module):
    def __init__(self, width=608):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(STATE, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.value, self.advantage = nn.Linear(width, 1), nn.Linear(width, ACTIONS)

    def forward(self, s):
        h = self.body(s)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


def warm_up(replay, rng):
    states = rng.normal(size=(WARM, STATE)).astype(np.float32)
    following = (0.9 * states + 0.1 * rng.normal(size=states.shape)).astype(np.float32)
    replay.extend(states, rng.integers(ACTIONS, size=WARM), states[:, 0], following, rng.random(WARM) < 0.02)


def main(steps=66, batch=512, gamma=0.99):
    torch.manual_seed(0)
    np.random.seed(0)
    replay = PrioritizedReplay(80_000, STATE)
    warm_up(replay, np.random.default_rng(0))
    online = Dueling()
    target = copy.deepcopy(online)
    opt = torch.optim.Adam(online.parameters(), lr=1e-4)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        picks, weights, (s, a, r, s2, done) = replay.sample(batch)
        with torch.no_grad():
            best = online(s2).argmax(1, keepdim=True)
            goal = r + gamma * (1 - done) * target(s2).gather(1, best).squeeze(1)
        q = online(s).gather(1, a[:, None]).squeeze(1)
        error = goal - q
        loss = (weights * nn.functional.smooth_l1_loss(q, goal, reduction="none")).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        opt.step()
        replay.update(picks, error.detach().abs().numpy())
        if step % 20 == 19:
            target.load_state_dict(online.state_dict())
        times.append(1e3 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
