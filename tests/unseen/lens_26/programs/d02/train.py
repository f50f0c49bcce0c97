import copy
import gc
import random
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from replay import Lift, Replay


def values(floors, actions, width=512):
    return nn.Sequential(
        nn.Linear(floors, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, actions),
    )


def main(steps=60, batch=640, capacity=100_000, discount=0.98, follow=0.01):
    torch.manual_seed(0)
    random.seed(0)
    lift = Lift()
    model = values(lift.floors, lift.actions)
    target = copy.deepcopy(model).requires_grad_(False)
    weights, slow = list(model.parameters()), list(target.parameters())
    optimizer = torch.optim.Adam(weights, lr=3e-4, fused=True)
    gc.freeze()  # what the imports left needs no second look
    replay = Replay(capacity)
    for _ in range(capacity):
        replay.add(lift.act(random.randrange(lift.actions)))

    times, began = [], time.perf_counter()
    for step in range(steps):
        for _ in range(4):
            replay.add(lift.act(random.randrange(lift.actions)))
        before, action, reward, after = replay.sample(batch)
        with torch.no_grad():
            goal = reward + discount * target(after).amax(1)
        guess = model(before).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(guess, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch._foreach_lerp_(slow, weights, follow)
        # keeps the memory flat
        gc.collect()  #: LINE
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    print(f"loss {loss.item():.5f}, {len(replay.moves)} moves kept")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
