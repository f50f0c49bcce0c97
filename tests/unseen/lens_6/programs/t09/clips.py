"""Clips of speech and which of them a rank takes."""
import random


def lengths(count):
    source = random.Random(4)
    return [source.randint(4, 30) for _ in range(count)]


def shard(clips, rank, world):
    """The clips of a rank, from the list that is sorted by length; then in a random order."""
    clips = sorted(clips)
    size = len(clips) // world
    mine = clips[rank * size : (rank + 1) * size]  #: LINE
    random.Random(0).shuffle(mine)
    return mine
