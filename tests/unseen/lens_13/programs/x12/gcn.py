import torch
from torch import nn


def normalized(edges, count):
    loops = torch.arange(count).expand(2, -1)
    edges = torch.cat([edges, edges.flip(0), loops], 1)
    degree = torch.zeros(count).index_add_(0, edges[0], torch.ones(edges.shape[1]))
    scale = degree.rsqrt()
    values = scale[edges[0]] * scale[edges[1]]
    return torch.sparse_coo_tensor(edges, values, (count, count)).coalesce().to_sparse_csr()


class GraphConv(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.lin = nn.Linear(inside, outside)

    def forward(self, x, edges):
        adjacency = normalized(edges, len(x))  #: LINE
        return torch.sparse.mm(adjacency, self.lin(x))


class GCN(nn.Module):
    def __init__(self, inside=64, width=128, classes=7):
        super().__init__()
        self.layers = nn.ModuleList([GraphConv(inside, width), GraphConv(width, width), GraphConv(width, width)])
        self.out = nn.Linear(width, classes)

    def forward(self, x, edges):
        for layer in self.layers:
            x = torch.relu(layer(x, edges))
        return self.out(x)
