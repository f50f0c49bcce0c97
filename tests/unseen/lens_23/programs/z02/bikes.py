import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
import lightning as L

FEATURES = ["hour", "weekday", "warmth", "rain", "wind", "events", "price", "docked"]
WINDOW = 48


def season(hours=24 * 400):
    """What the exporter gives: a row for each hour of a docking station."""
    random = np.random.default_rng(0)
    clock = pd.date_range("2024-01-01", periods=hours, freq="h")
    warmth = 12 + 9 * np.sin(np.arange(hours) / 1400) + random.standard_normal(hours)
    rain = np.maximum(random.standard_normal(hours) - 1, 0)
    rides = 20 + warmth - 9 * rain + 10 * np.sin(clock.hour / 3.8) + random.standard_normal(hours)
    return pd.DataFrame({
        "time": clock, "station": "north bridge", "hour": clock.hour / 24, "weekday": clock.weekday / 7, "warmth": warmth / 10,
        "rain": rain, "wind": random.random(hours), "events": random.random(hours) < 0.02, "price": 1.5 + random.random(hours),
        "docked": random.random(hours), "rides": rides / 20,
    })


class Windows(Dataset):
    """Two days of one station, and the rides of the hour after."""

    def __init__(self, table):
        self.table = table

    def __len__(self):
        return len(self.table) - WINDOW

    def __getitem__(self, index):
        rows = self.table.iloc[index:index + WINDOW]
        past = rows[FEATURES].to_numpy(dtype=np.float32)  #: LINE
        rides = np.float32(self.table["rides"].iloc[index + WINDOW])
        return torch.from_numpy(past), rides


class Rides(L.LightningModule):
    def __init__(self, width=160):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(len(FEATURES), width, 5, padding=2), nn.SiLU(), nn.Conv1d(width, width, 5, padding=2), nn.SiLU(),
            nn.Conv1d(width, width, 5, 2, padding=2), nn.SiLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 1),
        )

    def training_step(self, batch, index):
        past, rides = batch
        loss = F.smooth_l1_loss(self.net(past.transpose(1, 2)).squeeze(1), rides)
        self.last = loss.detach()
        return loss

    def train_dataloader(self):
        return DataLoader(Windows(season()), batch_size=32, shuffle=True, drop_last=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
