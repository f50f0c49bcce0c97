"""Junctions and roads as objects; a trip's features come from its two junctions."""

import random

import torch


class Junction:
    def __init__(self, number, rng):
        self.number, self.at = number, [rng.random(), rng.random()]
        self.roads = [{"to": rng.randrange(1500), "metres": [rng.random() * 900]} for _ in range(3)]


class RoadMap:
    def __init__(self, junctions):
        rng = random.Random(1)
        self.junctions = [Junction(n, rng) for n in range(junctions)]
        self.features = torch.tensor([j.at + [r["metres"][0] / 900 for r in j.roads] for j in self.junctions]).repeat(1, 7)[:, :32]

    def trips(self, count, seed):
        rng = torch.Generator().manual_seed(seed)
        a, b = torch.randint(0, len(self.junctions), (2, count), generator=rng)
        x = torch.cat([self.features[a], self.features[b]], 1)
        return x, (x[:, :2] - x[:, 32:34]).norm(dim=1, keepdim=True)
