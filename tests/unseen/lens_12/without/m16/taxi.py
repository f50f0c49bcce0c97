import numpy as np
import pandas as pd
import torch
from torch.utils.data import Dataset

NUMBERS = ["distance", "passengers", "hour", "weekday", "rain", "temperature", "tolls", "zone_from", "zone_to"]


def rides(count, seed=7):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({
        "distance": rng.gamma(2.0, 2.5, count), "passengers": rng.integers(1, 6, count),
        "hour": rng.integers(0, 24, count), "weekday": rng.integers(0, 7, count),
        "rain": rng.random(count) < 0.2, "temperature": rng.normal(12, 8, count),
        "tolls": rng.random(count), "zone_from": rng.integers(0, 60, count), "zone_to": rng.integers(0, 60, count),
    })
    table["fare"] = 3 + 2.1 * table.distance + table.tolls + rng.normal(0, 0.4, count)
    return table


class Rides(Dataset):
    def __init__(self, table):
        self.inputs = torch.tensor(table[NUMBERS].to_numpy(dtype="float32"))
        self.fares = torch.tensor(table["fare"].to_numpy(dtype="float32"))

    def __len__(self):
        return len(self.fares)

    def __getitem__(self, i):
        return self.inputs[i], self.fares[i]
