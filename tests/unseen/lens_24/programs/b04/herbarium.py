import random
from collections import defaultdict

import torch
from torch.utils.data import Dataset

TRAITS = ["hairy", "lobed", "smooth", "spiny", "toothed", "waxy"]


def collect(sheets=3000, spots=100, seed=4):
    """Dried plants as rows of features, and remarks of botanists on them: (sheet, trait)."""
    dice, maker = random.Random(seed), torch.Generator().manual_seed(seed)
    looks = torch.randn(len(TRAITS), 48, generator=maker)
    rows = torch.randn(sheets, spots, 48, generator=maker)
    remarks = []
    for sheet in range(sheets):
        for trait in dice.sample(range(len(TRAITS)), dice.randint(1, 3)):
            rows[sheet, dice.randrange(spots)] += 2 * looks[trait]
            remarks.append((sheet, TRAITS[trait]))
    dice.shuffle(remarks)
    return rows, remarks


class Herbarium(Dataset):
    def __init__(self, rows, remarks):
        self.rows = rows
        self.remarks = defaultdict(list)
        for sheet, trait in remarks:
            self.remarks[sheet].append(trait)

    def __len__(self):
        return len(self.rows)

    def traits(self, sheet):
        return [float(trait in self.remarks[sheet]) for trait in TRAITS]

    def __getitem__(self, sheet):
        return self.rows[sheet], torch.tensor(self.traits(sheet))
