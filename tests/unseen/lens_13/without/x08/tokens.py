import torch


def batches(count, batch=20, length=36, words=2000, tags=17, seed=3):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(words, (count, batch, length), generator=g)
    return list(zip(x, x % tags))
