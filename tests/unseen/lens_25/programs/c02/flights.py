import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import Dataset

MEASURES = [f"m{number:02d}" for number in range(20)]
COUNTS = ["stops", "crew", "bags"]


def schedule(rows=40000, seed=11):
    """One row a flight: measures, counts and how late it was."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(random.standard_normal((rows, len(MEASURES))).astype(np.float32), columns=MEASURES)
    for name in COUNTS:
        frame[name] = random.integers(0, 5, rows)
    frame["late"] = (frame.m00 * frame.m01 + 0.3 * frame.stops + 0.2 * random.standard_normal(rows)).astype(np.float32)
    return frame


class Flights(Dataset):
    def __init__(self, frame):
        self.frame = frame

    def __len__(self):
        return len(self.frame)

    def __getitem__(self, index):
        row = self.frame.iloc[index]
        inputs = row[MEASURES + COUNTS].to_numpy(dtype=np.float32)  #: LINE
        return torch.from_numpy(inputs), torch.tensor(row["late"], dtype=torch.float32)


class ColumnMixer(nn.Module):
    """Each column is a token."""

    def __init__(self, columns=len(MEASURES) + len(COUNTS), width=64, layers=2):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns, width) / 8)
        self.shift = nn.Parameter(torch.randn(columns, width) / 8)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.mix = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.mix(x.unsqueeze(-1) * self.scale + self.shift).mean(1)).squeeze(-1)
