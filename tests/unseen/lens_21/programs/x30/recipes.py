import torch


def recipes(count=2000, length=20, words=4000):
    """Words of recipes; frequent ones have small numbers."""
    first = (torch.rand(count, 1) ** 3 * words).long()
    strides = torch.randint(1, 5, (count, length + 1)).cumsum(1)
    return (first + strides) % words


def batches(size):
    text = recipes()
    while True:
        for picked in torch.randperm(len(text)).split(size):
            if len(picked) == size:
                yield text[picked, :-1], text[picked, 1:]
