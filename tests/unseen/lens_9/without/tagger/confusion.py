import torch


class ConfusionMatrix:
    """Rows: the right tag.  Columns: the tag that was given."""

    def __init__(self, n):
        self.n = n
        self.table = torch.zeros(n, n, dtype=torch.long)

    def add(self, given, right):
        pairs = right.reshape(-1) * self.n + given.reshape(-1)
        self.table += torch.bincount(pairs, minlength=self.n * self.n).view(self.n, self.n)

    def accuracy(self):
        return self.table.diag().sum() / self.table.sum()
