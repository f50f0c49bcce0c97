import torch


class Sampler:
    """Draws neighbours of papers in a citation graph."""

    def __init__(self, papers, edges, seed=0):
        self.papers = papers
        self.g = torch.Generator().manual_seed(seed)
        links = {paper: [] for paper in range(papers)}
        for a, b in edges.t().tolist():
            links[a].append(b)
            links[b].append(a)
        rows = [links[paper] or [paper] for paper in range(papers)]
        self.degrees = torch.tensor([len(row) for row in rows])
        self.starts = self.degrees.cumsum(0) - self.degrees
        self.near = torch.tensor([paper for row in rows for paper in row])

    def draw(self, papers, count):
        spot = torch.rand(len(papers), count, generator=self.g) * self.degrees[papers, None]
        return self.near[self.starts[papers, None] + spot.long()]


def citations(papers=4000, links=14, seed=0):
    g = torch.Generator().manual_seed(seed)
    fields = torch.randint(0, 12, (papers,), generator=g)
    order = torch.argsort(fields)
    a = torch.randint(0, papers, (papers * links // 2,), generator=g)
    b = (a + torch.randint(1, 60, a.shape, generator=g)) % papers
    features = torch.randn(papers, 64, generator=g)
    features[torch.arange(papers), fields] += 1.0
    return torch.stack([order[a], order[b]]), features, fields
