import random


def lengths_of(step, documents=16):
    """Word counts of a global batch, the same on all ranks: half short notes, half reports."""
    r = random.Random(step)
    return [r.randint(40, 60) for _ in range(documents // 2)] + [r.randint(120, 140) for _ in range(documents // 2)]


def share(lengths, rank, world):
    each = len(lengths) // world
    ordered = sorted(lengths)
    return ordered[rank * each:(rank + 1) * each]  #: LINE
