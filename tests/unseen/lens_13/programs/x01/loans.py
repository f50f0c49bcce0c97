import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import Dataset

FEATURES = [f"f{i:02d}" for i in range(36)]


def read_frame(rows=4096, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, len(FEATURES))), columns=FEATURES)
    score = frame["f00"] - 0.7 * frame["f03"] * frame["f07"] + rng.normal(scale=0.3, size=rows)
    frame["default"] = (score > 0.8).astype("float64")
    return frame


class Loans(Dataset):
    def __init__(self, frame):
        self.frame = frame

    def __len__(self):
        return len(self.frame)

    def __getitem__(self, i):
        row = self.frame.iloc[i]  #: LINE
        x = torch.tensor(row[FEATURES].to_numpy(dtype="float32"))
        return x, torch.tensor(row["default"], dtype=torch.float32)


class Score(nn.Module):
    def __init__(self, width=1024, depth=4):
        super().__init__()
        layers, last = [], len(FEATURES)
        for _ in range(depth):
            layers += [nn.Linear(last, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(0.1)]
            last = width
        self.net = nn.Sequential(*layers, nn.Linear(last, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)
