import torch


class ConfusionMatrix:
    """Rows: the right tag.  Columns: the tag that was given."""

    def __init__(self, n):
        self.n = n
        self.table = torch.zeros(n, n, dtype=torch.long)

    def add(self, given, right):
        for g, r in zip(given.view(-1), right.view(-1)):
            self.table[r.item(), g.item()] += 1

    def accuracy(self):
        return self.table.diag().sum() / self.table.sum()
