import torch


def logbook(count=2400, length=60):
    """Log of a harbour, in the order of its days: hourly heights, and the highest of the day after."""
    clock = torch.arange(count * 12 + length + 24) / 2
    heights = clock.sin() + 0.4 * (clock / 14).cos() + 0.05 * torch.randn(len(clock))
    days = heights.unfold(0, length, 12)[:count]
    ahead = heights[length:].unfold(0, 24, 12)[:count].amax(1, keepdim=True)
    return days.unsqueeze(2), ahead


class Share:
    """One rank's part of the log: the first has the old days, the last the new ones."""

    def __init__(self, days, ahead, rank, world, batch=32):
        share = len(days) // world
        mine = slice(rank * share, (rank + 1) * share)
        self.days, self.ahead = days[mine], ahead[mine]
        self.batch = batch
        self.generator = torch.Generator().manual_seed(rank)

    def __iter__(self):
        for picked in torch.randperm(len(self.days), generator=self.generator).split(self.batch):
            if len(picked) == self.batch:
                yield self.days[picked], self.ahead[picked]
