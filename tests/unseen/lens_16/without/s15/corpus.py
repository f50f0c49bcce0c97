import torch


def documents(count=1800, words=2500, shortest=12, longest=88, seed=0):
    g = torch.Generator().manual_seed(seed)
    share = torch.rand(count, generator=g) ** 1.5
    lengths = (shortest + share * (longest - shortest)).long().tolist()
    return [torch.randint(1, words, (n,), generator=g) for n in lengths]


def part(items, rank, world):
    """The share of one rank. Sorted by length, so that a batch needs little padding."""
    items = sorted(items, key=len)
    return items[rank::world]


def batches(items, size, seed):
    g = torch.Generator().manual_seed(seed)
    groups = [items[k:k + size] for k in range(0, len(items) - size + 1, size)]
    while True:
        for k in torch.randperm(len(groups), generator=g).tolist():
            yield torch.nn.utils.rnn.pad_sequence(groups[k], batch_first=True)
