"""Batches of similar lengths."""
import random


def make_lengths(count, low=24, high=136, seed=0):
    rng = random.Random(seed)
    return [rng.randint(low, high) for _ in range(count)]


def batches_for(rank, world, lengths, batch, seed=0):
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    groups = [order[i:i + batch] for i in range(0, len(order), batch)]
    share = len(groups) // world
    mine = groups[rank:share * world:world]
    random.Random(seed).shuffle(mine)
    return mine
