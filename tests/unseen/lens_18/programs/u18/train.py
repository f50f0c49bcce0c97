import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from rollout import Rollout


class Driver(nn.Module):
    def __init__(self, view=40, width=384):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(view, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
        )
        self.policy, self.value = nn.Linear(width, 6), nn.Linear(width, 1)

    def forward(self, x):
        h = self.body(x)
        return self.policy(h).log_softmax(-1), self.value(h).squeeze(-1)


def main(steps=60):
    torch.manual_seed(0)
    road, net = Rollout(), Driver()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4, fused=True)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        policy, value = net(road.view)
        gain = road.advantages(value.detach())
        chosen = policy[:-1].gather(2, road.move[:-1].unsqueeze(2)).squeeze(2)
        loss = F.mse_loss(value[:-1], gain + value[:-1].detach()) - (chosen * gain).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
