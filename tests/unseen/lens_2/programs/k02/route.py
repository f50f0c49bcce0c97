import torch

WORDS = 900


def draw(step, n=360):
    """Words of the step, the same on each rank."""
    g = torch.Generator().manual_seed(step)
    u = torch.rand(n, generator=g)
    return (WORDS * u).long()


def owner(words, world):
    return words // (WORDS // world)
