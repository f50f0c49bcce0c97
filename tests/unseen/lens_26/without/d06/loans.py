import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import Dataset

NUMBERS = ["amount", "income", "age", "years_in_job", "rate", "months", "debts", "cards"]
KINDS = ["purpose", "region"]


def table(count=20_000):
    """Loans and whether they were paid back."""
    random = np.random.default_rng(3)
    frame = pd.DataFrame(random.standard_normal((count, len(NUMBERS))).astype(np.float32), columns=NUMBERS)
    for name in KINDS:
        frame[name] = random.integers(0, 20, count)
    frame["paid"] = (frame["income"] - frame["debts"] + random.standard_normal(count) > 0).astype(np.int64)
    return frame


class Loans(Dataset):
    def __init__(self, frame):
        self.numbers = torch.from_numpy(frame[NUMBERS].to_numpy(np.float32, copy=True))
        self.kinds = torch.from_numpy(frame[KINDS].to_numpy(np.int64, copy=True))
        self.paid = frame["paid"].tolist()

    def __len__(self):
        return len(self.paid)

    def __getitem__(self, index):
        return self.numbers[index], self.kinds[index], self.paid[index]


class Score(nn.Module):
    def __init__(self, size=16, width=1152):
        super().__init__()
        self.kinds = nn.ModuleList(nn.Embedding(20, size) for _ in KINDS)
        self.deep = nn.Sequential(
            nn.Linear(len(NUMBERS) + size * len(KINDS), width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2),
        )

    def forward(self, numbers, kinds):
        looked = [kind(kinds[:, at]) for at, kind in enumerate(self.kinds)]
        return self.deep(torch.cat([numbers, *looked], 1))
