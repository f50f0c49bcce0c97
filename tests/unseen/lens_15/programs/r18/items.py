import torch


class Sessions:
    """Lists of visited items, some of them hidden, as for BERT4Rec."""

    def __init__(self, items=3000, length=40, sessions=3000, seed=0):
        g = torch.Generator().manual_seed(seed)
        start = torch.randint(2, items, (sessions, 1), generator=g)
        moves = torch.randint(-5, 6, (sessions, length), generator=g).cumsum(1)
        self.rows = (start + moves - 2) % (items - 2) + 2
        self.g = g

    def batch(self, count, rate=1 / 6):
        rows = self.rows[torch.randint(len(self.rows), (count,), generator=self.g)]
        hidden = torch.rand(rows.shape, generator=self.g) < rate
        return rows.masked_fill(hidden, 1), rows, hidden
