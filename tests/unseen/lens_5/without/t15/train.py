"""Route costs over a road map that is kept as Python objects (junctions and roads)."""

import statistics
import time

import torch
from torch import nn

from roads import RoadMap
from tidy import keep_tidy


def main():
    torch.manual_seed(0)
    roads = RoadMap(junctions=1500)
    model = nn.Sequential(nn.Linear(64, 640), nn.ReLU(), nn.Linear(640, 640), nn.ReLU(), nn.Linear(640, 640), nn.ReLU(), nn.Linear(640, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    taken = []
    for step in range(60):
        start = time.perf_counter()
        x, cost = roads.trips(512, step)
        loss = nn.functional.l1_loss(model(x), cost)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        taken.append(time.perf_counter() - start)
    print(f"loss {loss.item():.3f}")
    print(f"{1e3 * statistics.median(taken):.2f} ms/step median, {1e3 * statistics.mean(taken):.2f} ms/step")


if __name__ == "__main__":
    main()
