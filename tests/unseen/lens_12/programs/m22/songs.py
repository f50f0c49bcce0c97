import torch


class Songs:
    """Songs of a step have one length on all ranks; it differs from step to step."""

    def __init__(self, rank, groups=9):
        plan = torch.Generator().manual_seed(2)
        mine = torch.Generator().manual_seed(20 + rank)
        self.groups = []
        for length in torch.randint(24, 40, (groups,), generator=plan).tolist():
            self.groups.append(torch.randint(64, (40, length), generator=mine))

    def batch(self, step, size=20):
        group = self.groups[step % len(self.groups)]
        return group[torch.randint(len(group), (size,))]
