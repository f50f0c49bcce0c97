import torch


class Corpus:
    def __init__(self, vocab=1200, tokens=80000, length=48, seed=0):
        g = torch.Generator().manual_seed(seed)
        walk = torch.randint(-3, 4, (tokens,), generator=g).cumsum(0)
        self.tokens = walk % (vocab - 5) + 5
        self.length, self.g = length, g

    def batch(self, count):
        starts = torch.randint(len(self.tokens) - self.length, (count,), generator=self.g)
        return self.tokens[starts[:, None] + torch.arange(self.length)]
