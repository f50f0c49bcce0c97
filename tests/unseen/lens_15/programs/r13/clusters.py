import torch


def community_graph(nodes=2520, degree=12, features=64, classes=10, seed=0):
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(classes, (nodes,), generator=g).sort().values
    source = torch.arange(nodes).repeat_interleave(degree)
    near = torch.randint(-60, 61, (nodes * degree,), generator=g)
    target = (source + near).clamp(0, nodes - 1)
    x = torch.randn(classes, features, generator=g)[label] + 2 * torch.randn(nodes, features, generator=g)
    return x, torch.stack([source, target]), label


def cut(x, edges, label, parts):
    """Clusters of nearly equal size, without the edges between them."""
    owner = torch.arange(len(x)) * parts // len(x)
    clusters = []
    for part in range(parts):
        mine = owner == part
        inside = mine[edges[0]] & mine[edges[1]]
        first = int(mine.nonzero()[0])
        clusters.append((x[mine], edges[:, inside] - first, label[mine]))
    return clusters
