import random

import torch


class Sampler:
    """Draws neighbours of papers in a citation graph."""

    def __init__(self, papers, edges, seed=0):
        self.papers = papers
        self.random = random.Random(seed)
        self.links = {paper: [] for paper in range(papers)}
        for a, b in edges.t().tolist():
            self.links[a].append(b)
            self.links[b].append(a)

    def draw(self, papers, count):
        rows = []
        for paper in papers.tolist():
            near = self.links[paper] or [paper]
            rows.append([self.random.choice(near) for _ in range(count)])  #: LINE
        return torch.tensor(rows)


def citations(papers=4000, links=14, seed=0):
    g = torch.Generator().manual_seed(seed)
    fields = torch.randint(0, 12, (papers,), generator=g)
    order = torch.argsort(fields)
    a = torch.randint(0, papers, (papers * links // 2,), generator=g)
    b = (a + torch.randint(1, 60, a.shape, generator=g)) % papers
    features = torch.randn(papers, 64, generator=g)
    features[torch.arange(papers), fields] += 1.0
    return torch.stack([order[a], order[b]]), features, fields
