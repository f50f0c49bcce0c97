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

    def __len__(self):
        return len(self.table)

    def __getitem__(self, i):
        row = self.table.iloc[i]
        numbers = row[NUMBERS].to_numpy(dtype="float32")
        categories = row[CATEGORIES].to_numpy(dtype="int64")
        return torch.from_numpy(numbers), torch.from_numpy(categories), int(row["default"])
