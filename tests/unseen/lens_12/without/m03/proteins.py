import torch


class Proteins:
    """Contact graphs in the order of the archive (by length); each rank has its part."""

    def __init__(self, rank, world, count=640, seed=5):
        g = torch.Generator().manual_seed(seed)
        lengths = (60 + 190 * torch.rand(count, generator=g)).int().sort().values.tolist()
        mine = lengths[rank::world]
        self.nodes = [torch.randn(n, 20, generator=g) for n in mine]
        self.edges = [torch.randint(n, (2, 4 * n), generator=g) for n in mine]
        self.stable = [float(x[:, 0].mean() > 0) for x in self.nodes]

    def batch(self, size):
        chosen = torch.randint(len(self.nodes), (size,)).tolist()
        nodes = torch.cat([self.nodes[i] for i in chosen])
        counts = torch.tensor([len(self.nodes[i]) for i in chosen])
        first = (counts.cumsum(0) - counts).tolist()
        edges = torch.cat([self.edges[i] + f for i, f in zip(chosen, first)], 1)
        owner = torch.repeat_interleave(torch.arange(size), counts)
        return nodes, edges, owner, torch.tensor([self.stable[i] for i in chosen])
