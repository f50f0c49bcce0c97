import torch
from torch import nn


class Facts:
    """Triples of a knowledge graph; false ones are drawn by changing the tail."""

    def __init__(self, things=6000, relations=40, count=20000, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        head = torch.randint(0, things, (count,), generator=self.g)
        relation = torch.randint(0, relations, (count,), generator=self.g)
        self.triples = torch.stack([head, relation, (head + 17 * relation) % things], 1)
        self.things = things
        self.known = {}
        for h, r, t in self.triples.tolist():
            self.known.setdefault((h, r), []).append(t)

    def draw(self, count, false):
        rows = self.triples[torch.randint(0, len(self.triples), (count,), generator=self.g)]
        return rows, torch.randint(0, self.things, (count, false), generator=self.g)


class Rotate(nn.Module):
    def __init__(self, things=6000, relations=40, width=96):
        super().__init__()
        self.things = nn.Embedding(things, 2 * width)
        self.angles = nn.Embedding(relations, width)
        nn.init.normal_(self.things.weight, std=0.5)

    def forward(self, triples, false):
        re, im = self.things(triples[:, 0]).chunk(2, 1)
        angle = self.angles(triples[:, 1])
        cos, sin = angle.cos(), angle.sin()
        turned = torch.cat([re * cos - im * sin, re * sin + im * cos], 1)
        tails = self.things(torch.cat([triples[:, 2:], false], 1))
        return 6.0 - (turned[:, None] - tails).square().sum(2).add(1e-6).sqrt()
