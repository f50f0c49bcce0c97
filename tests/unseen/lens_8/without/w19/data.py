"""A table of events; its index is a file of JSON that each process opens for itself."""
import json

import numpy as np
import torch
from torch.utils.data import Dataset


def write_index(path, rows, columns=48, seed=0):
    rng = np.random.default_rng(seed)
    with open(path, "w") as f:
        for row in range(rows):
            json.dump({"id": row, "label": int(row % 7), "offset": row * 4 * columns,
                       "tags": [f"t{t}" for t in rng.integers(0, 99, 6).tolist()]}, f)
            f.write("\n")


class Events(Dataset):
    def __init__(self, path, length, columns=48):
        self.path, self.length, self.columns = path, length, columns
        self.index = None

    def open(self):
        with open(self.path) as f:
            self.index = [json.loads(line) for line in f]

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if self.index is None:
            self.open()
        entry = self.index[i * 37 % len(self.index)]
        rng = np.random.default_rng(entry["offset"])
        return torch.from_numpy(rng.standard_normal((self.columns, 64), dtype=np.float32)), entry["label"]
