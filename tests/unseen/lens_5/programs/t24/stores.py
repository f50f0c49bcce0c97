"""The archive (slow: 45 ms a write) and the neighbour cache (in memory)."""

import time

import torch


class Archive:
    def __init__(self):
        self.lines = 0

    def write(self, songs):
        time.sleep(0.045)
        self.lines += len(songs)


class Neighbours:
    def __init__(self, songs):
        self.near = (torch.arange(songs)[:, None] + torch.arange(5, 25)) % songs

    def of(self, ids, seed):
        pick = torch.randint(0, 20, ids.shape, generator=torch.Generator().manual_seed(seed))
        return self.near[ids, pick]
