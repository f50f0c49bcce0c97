import random

import torch


def documents(n, seed=0):
    rng = random.Random(seed)
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(1, 800, (rng.randint(24, 80),), generator=g) for _ in range(n)]


class LengthBatches:
    """Batches of documents of about one length; at each step all ranks take neighbours."""

    def __init__(self, docs, batch, rank, world, seed=0):
        order = sorted(range(len(docs)), key=lambda i: len(docs[i]))
        size = batch * world
        groups = [order[k:k + size] for k in range(0, len(order) - size + 1, size)]
        random.Random(seed).shuffle(groups)
        self.batches = [g[rank::world] for g in groups]

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


def pad(docs):
    return torch.nn.utils.rnn.pad_sequence(docs, batch_first=True)
