import torch


class Citations:
    def __init__(self, nodes=12000, degree=10, features=128, classes=12, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.label = torch.randint(classes, (nodes,), generator=g)
        self.x = torch.randn(classes, features, generator=g)[self.label] + torch.randn(nodes, features, generator=g)
        self.near = torch.randint(nodes, (nodes, degree), generator=g)

    def sample(self, seeds=200, fanout=5):
        """The seeds, some of their neighbours, and theirs; edges point to places in the list of nodes."""
        start = torch.randperm(len(self.x))[:seeds]
        layers, edges = [start], []
        for _ in range(2):
            front = layers[-1]
            picks = self.near[front][:, torch.randperm(self.near.shape[1])[:fanout]]
            edges.append(torch.stack([front.repeat_interleave(fanout), picks.flatten()]))
            layers.append(picks.flatten().unique())
        nodes = torch.cat(layers).unique()
        places = torch.full((len(self.x),), -1)
        places[nodes] = torch.arange(len(nodes))
        edges = places[torch.cat(edges, 1)]
        return self.x[nodes], edges, places[start], self.label[start]
