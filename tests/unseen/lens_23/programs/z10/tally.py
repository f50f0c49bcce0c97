import torch


class Tally:
    """A confusion matrix for each height of the sky, kept as we train."""

    def __init__(self, heights, kinds):
        self.heights, self.kinds = heights, kinds
        self.table = torch.zeros(heights, kinds, kinds, dtype=torch.long)

    def update(self, guess, truth):
        for height in range(self.heights):
            pairs = truth[:, height].flatten() * self.kinds + guess[:, height].flatten()
            self.table[height] += torch.bincount(pairs, minlength=self.kinds ** 2).view(self.kinds, self.kinds)

    def right(self):
        return self.table.diagonal(dim1=1, dim2=2).sum(1) / self.table.sum((1, 2)).clamp(min=1)
