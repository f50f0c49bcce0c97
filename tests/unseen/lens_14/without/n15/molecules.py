import torch
from torch import nn


def molecules(count=1600, seed=0):
    """Graphs of 8 to 40 atoms, in the order of the file (small ones first)."""
    g = torch.Generator().manual_seed(seed)
    sizes = torch.randint(8, 41, (count,), generator=g).sort().values.tolist()
    graphs = []
    for n in sizes:
        chain = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
        rings = torch.randint(n, (2, n // 3), generator=g)
        half = torch.cat([chain, rings], 1)
        edges = torch.cat([half, half.flip(0)], 1)
        atoms = torch.randint(16, (n,), generator=g)
        graphs.append((atoms, edges, atoms.float().mean() / 8 - 1))
    return graphs


def merge(graphs):
    atoms, edges, owner, target, start = [], [], [], [], 0
    for k, (a, e, y) in enumerate(graphs):
        atoms.append(a)
        edges.append(e + start)
        owner.append(torch.full((len(a),), k))
        target.append(y)
        start += len(a)
    return torch.cat(atoms), torch.cat(edges, 1), torch.cat(owner), torch.stack(target)


class GIN(nn.Module):
    def __init__(self, width=128, depth=4):
        super().__init__()
        self.atoms = nn.Embedding(16, width)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.LayerNorm(width))
            for _ in range(depth)
        )
        self.out = nn.Linear(width, 1)

    def forward(self, atoms, edges, owner, count):
        h = self.atoms(atoms)
        for layer in self.layers:
            near = torch.zeros_like(h).index_add_(0, edges[1], h[edges[0]])
            h = torch.relu(h + layer(h + near))
        pooled = torch.zeros(count, h.shape[1]).index_add_(0, owner, h)
        return self.out(pooled / len(atoms) * count).squeeze(1)
