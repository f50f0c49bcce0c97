import random

import torch
from torch.utils.data import Dataset

KINDS = ["clown", "moray", "parrot", "puffer", "ray", "shark", "star", "urchin"]


def dive(pictures=2400, grid=14, seed=0):
    """Pictures of a reef (14 by 14 patches of features) and what the divers marked, as a list of records."""
    dice, torch_dice = random.Random(seed), torch.Generator().manual_seed(seed)
    looks = torch.randn(len(KINDS), 32, generator=torch_dice)
    features = 0.7 * torch.randn(pictures, grid, grid, 32, generator=torch_dice)
    records = []
    for picture in range(pictures):
        for _ in range(dice.randint(2, 6)):
            kind, row, column = dice.randrange(len(KINDS)), dice.randrange(grid), dice.randrange(grid)
            features[picture, row, column] += looks[kind]
            records.append({"picture": picture, "kind": KINDS[kind], "row": row, "column": column})
    dice.shuffle(records)
    return features, records


class Reef(Dataset):
    def __init__(self, features, records):
        self.features = features
        self.records = [[] for _ in features]
        for record in records:
            self.records[record["picture"]].append(record)
        self.places = {kind: place for place, kind in enumerate(KINDS)}

    def __len__(self):
        return len(self.features)

    def marks(self, picture):
        return self.records[picture]

    def __getitem__(self, index):
        there = torch.zeros(len(KINDS))
        there[[self.places[mark["kind"]] for mark in self.marks(index)]] = 1
        return self.features[index], there
