import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import Dataset

SEEN = ["hour", "weekday", "rain", "from_x", "from_y", "to_x", "to_y", "people"]


def table(count=30_000):
    """Rides in taxis and how long they took."""
    random = np.random.default_rng(8)
    frame = pd.DataFrame(random.random((count, len(SEEN)), dtype=np.float32), columns=SEEN)
    way = np.hypot(frame["from_x"] - frame["to_x"], frame["from_y"] - frame["to_y"])
    frame["minutes"] = (20 * way * (1 + frame["rain"]) + random.random(count)).astype(np.float32)
    return frame


class Rides(Dataset):
    def __init__(self, frame):
        self.frame = frame

    def __len__(self):
        return len(self.frame)

    def __getitems__(self, picked):
        rows = self.frame.iloc[picked]
        return torch.from_numpy(rows.to_numpy(copy=True))


def split(rows):
    return rows[:, :-1], rows[:, -1]


class Clock(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(len(SEEN), width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1),
        )

    def forward(self, seen):
        return self.net(seen).squeeze(1)
