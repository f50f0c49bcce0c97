import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler


class Tiles(Dataset):
    """Old tiles, and the workshop that each is from. Takes a list of places, gives a batch."""

    def __init__(self, count=2000, side=20, shops=8):
        self.shop = torch.randint(0, shops, (count,))
        self.tiles = torch.rand(shops, 3, side, side)[self.shop] + 0.6 * torch.randn(count, 3, side, side)

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, picked):
        return self.tiles[picked], self.shop[picked]


def loader(batch):
    tiles = Tiles()
    return DataLoader(tiles, batch_size=None, sampler=BatchSampler(RandomSampler(tiles), batch, drop_last=True))


class Workshop(L.LightningModule):
    def __init__(self, width=48, shops=8):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 1, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.1), nn.Linear(8 * width, shops),
        )

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        tiles, shop = batch
        guess = self(tiles)
        loss = F.cross_entropy(guess, shop)
        return {"loss": loss, "guess": guess.detach()}

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
