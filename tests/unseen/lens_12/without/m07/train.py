import copy
import random
import statistics
import time
import warnings

import torch
from torch import nn

from replay import Maze, Replay

warnings.filterwarnings("ignore", message="Creating a tensor from a list")


def q_net(inputs, actions, width=640):
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, width), nn.ReLU(), nn.Linear(width, actions))


def main(updates=66, batch=256):
    random.seed(0)
    torch.manual_seed(0)
    world, memory = Maze(), Replay()
    state = world.look()
    for _ in range(3000):
        action = random.randrange(4)
        after, reward, done = world.step(action)
        memory.push(state, action, reward, after, done)
        state = after
    online = q_net(128, 4)
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=2e-4)
    ms = []
    for update in range(updates):
        begin = time.perf_counter()
        for _ in range(4):
            action = random.randrange(4)
            after, reward, done = world.step(action)
            memory.push(state, action, reward, after, done)
            state = after
        s, a, r, n, d = memory.sample(batch)
        with torch.no_grad():
            goal = r + 0.98 * (1 - d) * target(n).amax(1)
        value = online(s).gather(1, a[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 20 == 0:
            target.load_state_dict(online.state_dict())
        ms.append(1000 * (time.perf_counter() - begin))
    ms = ms[3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")


main()
