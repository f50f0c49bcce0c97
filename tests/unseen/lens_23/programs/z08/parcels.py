import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler
import lightning as L


def depot(count=30000, sensors=40):
    """Readings of the belt for each parcel, and the chute it belongs to."""
    random = np.random.default_rng(1)
    chute = random.integers(0, 12, count)
    readings = random.standard_normal((12, sensors))[chute] + 1.5 * random.standard_normal((count, sensors))
    return pd.DataFrame(readings.astype(np.float32), columns=[f"s{i}" for i in range(sensors)]), torch.from_numpy(chute)


class Parcels(Dataset):
    """Takes a list of places, gives a batch."""

    def __init__(self):
        self.table, self.chute = depot()

    def __len__(self):
        return len(self.table)

    def __getitem__(self, picked):
        rows = self.table.iloc[picked].to_numpy()
        return torch.tensor(rows), self.chute[picked]


class Sorter(L.LightningModule):
    def __init__(self, sensors=40, width=768, chutes=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(sensors, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, chutes),
        )

    def training_step(self, batch, index):
        readings, chute = batch
        loss = F.cross_entropy(self.net(readings), chute, label_smoothing=0.05)
        self.last = loss.detach()
        return loss

    def train_dataloader(self):
        parcels = Parcels()
        picks = BatchSampler(RandomSampler(parcels), 256, drop_last=True)
        return DataLoader(parcels, batch_size=None, sampler=picks)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4, fused=True)
