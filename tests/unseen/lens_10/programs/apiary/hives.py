import lightning as L
import torch
from torch.utils.data import DataLoader, Dataset


class Hives(Dataset):
    """An hour of a hive's sensors, and whether the bees swarm the day after."""

    def __init__(self, count=256, channels=8, minutes=256):
        g = torch.Generator().manual_seed(12)
        self.swarm = (torch.rand(count, generator=g) < 0.3).float()
        self.x = torch.randn(count, channels, minutes, generator=g) + self.swarm[:, None, None] * torch.linspace(0, 1, minutes)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + 0.05 * torch.randn_like(self.x[i]), self.swarm[i]


class HiveData(L.LightningDataModule):
    def setup(self, stage=None):
        self.train = Hives()

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=32, shuffle=True, num_workers=1)
