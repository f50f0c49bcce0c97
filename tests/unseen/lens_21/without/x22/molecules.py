import torch
import torch.distributed as dist


def molecules(count=1600, most=140, features=16):
    """Graphs of atoms as they are in the file: written there by size, small ones first."""
    generator = torch.Generator().manual_seed(5)
    sizes = (4 + most * torch.rand(count, generator=generator) ** 3).long().sort().values.tolist()
    graphs = []
    for size in sizes:
        atoms = torch.randn(size, features, generator=generator)
        bonds = torch.randint(0, size, (2, 3 * size), generator=generator)
        graphs.append((atoms, bonds, atoms.square().mean()))
    return graphs


class Batches:
    """Batches of this rank's share of the graphs, each time in another order."""

    def __init__(self, graphs, size):
        self.graphs, self.size = graphs[dist.get_rank()::dist.get_world_size()], size

    def __iter__(self):
        while True:
            order = torch.randperm(len(self.graphs)).tolist()
            for i in range(0, len(order) - self.size + 1, self.size):
                yield self.join([self.graphs[j] for j in order[i:i + self.size]])

    def join(self, graphs):
        counts = torch.tensor([len(atoms) for atoms, _, _ in graphs])
        shifts = counts.cumsum(0) - counts
        atoms = torch.cat([atoms for atoms, _, _ in graphs])
        bonds = torch.cat([bonds + shift for (_, bonds, _), shift in zip(graphs, shifts)], 1)
        whose = torch.arange(len(graphs)).repeat_interleave(counts)
        return atoms, bonds, whose, torch.stack([energy for _, _, energy in graphs])
