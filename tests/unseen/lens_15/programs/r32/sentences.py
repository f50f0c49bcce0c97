import torch


def sentences(count=4000, vocab=900, seed=0):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(12, 61, (count,), generator=g).tolist()
    return [torch.randint(2, vocab, (n,), generator=g) for n in lengths]


class BucketedBatches:
    """Sorted by length, cut in global batches, shuffled alike on all ranks; each takes every world-th sentence."""

    def __init__(self, rows, batch, rank, world, seed=0):
        self.rows, self.rank, self.world, self.seed = rows, rank, world, seed
        order = sorted(range(len(rows)), key=lambda k: len(rows[k]))
        wide = batch * world
        self.batches = [order[k:k + wide] for k in range(0, len(order) - wide + 1, wide)]

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        for k in torch.randperm(len(self.batches), generator=g).tolist():
            rows = [self.rows[j] for j in self.batches[k][self.rank::self.world]]
            yield torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
