"""Batches of chat turns, padded with 0 to the longest turn of the batch."""

import torch

ROUND_TO = 64


class Turns:
    def __init__(self, batches, size):
        self.size = size
        rng = torch.Generator().manual_seed(11)
        self.longest = (torch.randperm(batches, generator=rng) + 68).tolist()

    def __iter__(self):
        for n, longest in enumerate(self.longest):
            rng = torch.Generator().manual_seed(n)
            lengths = torch.randint(longest // 2, longest + 1, (self.size,), generator=rng)
            lengths[0] = longest
            width = -(-longest // ROUND_TO) * ROUND_TO
            ids = torch.randint(1, 1200, (self.size, width), generator=rng)
            ids[torch.arange(width) >= lengths[:, None]] = 0
            yield ids
