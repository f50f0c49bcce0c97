import torch


class Corpus:
    """Sentences of 8 to 152 tokens."""

    def __init__(self, n, vocab, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.lengths = torch.randint(8, 153, (n,), generator=g)
        self.vocab = vocab

    def sentence(self, i, length):
        g = torch.Generator().manual_seed(int(i))
        return torch.randint(0, self.vocab, (length,), generator=g)

    def batches(self, rank, world, size):
        order = self.lengths.argsort()
        mine = order[rank::world]
        starts = torch.arange(0, len(mine), size)
        for k in starts[torch.randperm(len(starts), generator=torch.Generator().manual_seed(1))].tolist():
            idx = mine[k : k + size]
            length = int(self.lengths[idx].max())
            yield torch.stack([self.sentence(i, length) for i in idx])
