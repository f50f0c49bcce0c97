import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler
import lightning as L


class Maps(Dataset):
    """Rain of the last four hours on a map, and that of the next one. Takes a list of places, gives a batch."""

    def __init__(self, count=800, side=24):
        self.maps = F.avg_pool2d(torch.rand(count, 5, side + 4, side + 4), 5, 1)

    def __len__(self):
        return len(self.maps)

    def __getitem__(self, picked):
        maps = self.maps[picked]
        return maps[:, :4], maps[:, 4:]


def loader(batch):
    maps = Maps()
    return DataLoader(maps, batch_size=None, sampler=BatchSampler(RandomSampler(maps), batch, drop_last=True))


class Rain(L.LightningModule):
    def __init__(self, width=64):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(4, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU())
        self.middle = nn.Sequential(
            nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.ReLU(), nn.Conv2d(4 * width, 2 * width, 3, 1, 1), nn.ReLU(),
            nn.Upsample(scale_factor=2),
        )
        self.up = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(2 * width, width, 3, 1, 1), nn.ReLU(),
                                nn.Upsample(scale_factor=2), nn.Conv2d(width, 1, 3, 1, 1))

    def forward(self, x):
        x = self.down(x)
        return self.up(x + self.middle(x))

    def training_step(self, batch, index):
        before, after = batch
        self.last = F.mse_loss(self(before), after)
        return self.last

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
