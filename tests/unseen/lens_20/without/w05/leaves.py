import csv
import os

import torch
from torch.utils.data import Dataset


def kinds_of(path):
    """Kind of each leaf, by its name."""
    with open(path, newline="") as rows:
        return {row["leaf"]: int(row["kind"]) for row in csv.DictReader(rows)}


class Leaves(Dataset):
    """Outlines of leaves, and the plant that they are from."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "kinds.csv")
        self.outlines = torch.load(os.path.join(folder, "outlines.pt"))
        self.kinds = kinds_of(self.path)
        self.names = sorted(self.kinds)

    def __len__(self):
        return len(self.names)

    def __getitems__(self, picked):
        kind = torch.tensor([self.kinds[self.names[index]] for index in picked])
        return self.outlines[torch.tensor(picked)], kind


def collect(folder, count=5000, points=80, plants=18):
    kind = torch.randint(0, plants, (count,))
    outlines = (torch.randn(plants, 2, points)[kind] + torch.randn(count, 2, points)).cumsum(2) / 9
    torch.save(outlines, os.path.join(folder, "outlines.pt"))
    with open(os.path.join(folder, "kinds.csv"), "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["leaf", "kind", "site"])
        rows.writerows([f"leaf{index:05d}", plant, index % 7] for index, plant in enumerate(kind.tolist()))
