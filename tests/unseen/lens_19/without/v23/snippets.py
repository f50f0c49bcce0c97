import torch


class Snippets:
    """Pieces of program text, from the shortest to the longest, as the file has them; whole batches of one length."""

    def __init__(self, signs, batch, batches=60, shortest=20, longest=68):
        g = torch.Generator().manual_seed(0)
        lengths = torch.linspace(shortest, longest, batches).round().long().tolist()
        self.batches = [torch.randint(0, signs, (batch, n), generator=g) for n in lengths]

    def of(self, rank, world):
        """The part of the data of one rank."""
        return self.batches[rank::world]


def endless(batches):
    """All ranks draw the same places of their lists."""
    g = torch.Generator().manual_seed(0)
    while True:
        for i in torch.randperm(len(batches), generator=g).tolist():
            yield batches[i]
