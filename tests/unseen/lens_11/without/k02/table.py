"""Loan applications: numbers and categories of a pandas table."""
import numpy as np
import pandas as pd
import torch
from torch.utils.data import Dataset

NUMBERS = [f"n{i}" for i in range(20)]
CATEGORIES = [f"c{i}" for i in range(6)]


def make_table(rows=8192):
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.standard_normal((rows, len(NUMBERS))).astype("float32"), columns=NUMBERS)
    for name in CATEGORIES:
        table[name] = rng.integers(0, 40, rows)
    table["default"] = (table["n0"] + table["n3"] > 0.4).astype("int64")
    return table


class Loans(Dataset):
    def __init__(self, table):
        self.table = table
        self.numbers = table[NUMBERS].to_numpy().copy()
        self.categories = table[CATEGORIES].to_numpy().copy()
        self.label = table["default"].to_numpy()

    def __len__(self):
        return len(self.table)

    def __getitem__(self, i):
        return torch.from_numpy(self.numbers[i]), torch.from_numpy(self.categories[i]), int(self.label[i])
