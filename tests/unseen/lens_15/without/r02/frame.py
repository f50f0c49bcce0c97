import numpy as np
import pandas as pd
import torch
from torch.utils.data import Dataset

NUMERIC = [f"amount_{k}" for k in range(24)]
CATEGORICAL = {"region": 40, "channel": 8, "segment": 120, "weekday": 7, "product": 300}


def transactions(rows=9000, seed=0):
    rng = np.random.default_rng(seed)
    columns = {name: rng.lognormal(0.0, 1.0, rows).astype("float32") for name in NUMERIC}
    columns.update({name: rng.integers(0, size, rows) for name, size in CATEGORICAL.items()})
    frame = pd.DataFrame(columns)
    score = np.log(frame["amount_0"]) - np.log(frame["amount_3"]) + 0.1 * (frame["weekday"] - 3)
    frame["churned"] = (score + rng.normal(0, 1, rows) > 0).astype("float32")
    return frame


class Churn(Dataset):
    def __init__(self, frame):
        self.numeric = torch.tensor(frame[NUMERIC].to_numpy(), dtype=torch.float32)
        self.codes = torch.tensor(frame[list(CATEGORICAL)].to_numpy(), dtype=torch.int64)
        self.target = torch.tensor(frame["churned"].to_numpy(), dtype=torch.float32)

    def __len__(self):
        return len(self.target)

    def __getitem__(self, index):
        return self.numeric[index].log1p(), self.codes[index], self.target[index]
