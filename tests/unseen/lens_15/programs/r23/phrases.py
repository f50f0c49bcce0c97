import torch


class Phrases:
    """The second half of each sentence, backwards."""

    def __init__(self, vocab=600, length=24, seed=0):
        self.vocab, self.length = vocab, length
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, count):
        source = torch.randint(2, self.vocab, (count, self.length), generator=self.g)
        wanted = source[:, self.length // 2:].flip(1)
        begin = torch.ones(count, 1, dtype=torch.int64)
        return source, torch.cat([begin, wanted[:, :-1]], 1), wanted
