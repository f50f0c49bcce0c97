"""Proteins in buckets of one length each; a batch holds 1,536 residues whatever the length."""
import torch

LENGTHS = (48, 96, 192, 384)
RESIDUES = 1536


class Buckets:
    def __init__(self, rank, seed=0):
        self.rank = rank
        self.generator = torch.Generator().manual_seed(seed + rank)

    def batch(self, step):
        length = LENGTHS[(step + self.rank) % len(LENGTHS)]
        ids = torch.randint(1, 21, (RESIDUES // length, length), generator=self.generator)
        return ids, (ids % 3).long()
