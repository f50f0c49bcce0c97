import torch


class Leaves(torch.utils.data.Dataset):
    """Leaves with one of 12 diseases, seen as a spot pattern."""

    def __init__(self, count=600, side=32, kinds=12):
        g = torch.Generator().manual_seed(0)
        self.kinds = torch.randint(0, kinds, (count,), generator=g)
        self.spots = torch.randn(kinds, 3, side, side, generator=g)
        self.side = side

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        kind = int(self.kinds[index])
        noise = torch.randn(3, self.side, self.side, generator=g)
        return {"pixel_values": 0.5 * self.spots[kind] + noise, "labels": kind}
