import copy
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from replay import Replay


def player(view=32, width=512):
    return nn.Sequential(
        nn.Linear(view, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, 4),
    )


def main(steps=60, batch=768):
    torch.manual_seed(0)
    memory, net = Replay(), player()
    steady = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked, view, move, reward, after = memory.draw(batch)
        with torch.no_grad():
            aim = reward + 0.97 * steady(after).amax(1)
        value = net(view).gather(1, move.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(value, aim)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        memory.revise(picked, (value.detach() - aim).abs())
        if (step + 1) % 20 == 0:
            steady.load_state_dict(net.state_dict())
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
