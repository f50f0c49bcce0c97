import torch
from torch import nn


def normalised(edges, nodes):
    """D^-1/2 (A + I) D^-1/2 as a sparse matrix."""
    loops = torch.arange(nodes).repeat(2, 1)
    edges = torch.cat([edges, edges.flip(0), loops], 1)
    adjacency = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (nodes, nodes)).coalesce()
    row, column = adjacency.indices()
    degree = torch.zeros(nodes).index_add_(0, row, adjacency.values())
    scale = degree.rsqrt()
    values = scale[row] * adjacency.values() * scale[column]
    return torch.sparse_coo_tensor(adjacency.indices(), values, (nodes, nodes)).coalesce().to_sparse_csr()


class Convolution(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.linear = nn.Linear(a, b)

    def forward(self, x, edges):
        adjacency = normalised(edges, len(x))  #: LINE
        return adjacency @ self.linear(x)


class GCN(nn.Module):
    def __init__(self, features=128, width=160, classes=7):
        super().__init__()
        self.one, self.two = Convolution(features, width), Convolution(width, width)
        self.out = nn.Linear(width, classes)

    def forward(self, x, edges):
        h = torch.relu(self.one(x, edges))
        h = torch.relu(self.two(h, edges))
        return self.out(h)


def citations(nodes=6000, links=18000, features=128, classes=7):
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(0, classes, (nodes,), generator=g)
    x = torch.randn(nodes, features, generator=g)
    x[torch.arange(nodes), labels] += 1.0
    order = labels.argsort()
    near = (torch.arange(nodes) + torch.randint(1, 60, (links // nodes, nodes), generator=g)) % nodes
    edges = torch.stack([order.repeat(links // nodes), order[near.flatten()]])
    return x, edges, labels
