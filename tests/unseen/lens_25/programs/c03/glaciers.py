import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler


class Seasons(Dataset):
    """Weather of a season, and the melt of a glacier in it. Takes a list of places, gives a batch."""

    def __init__(self, count=30000, weather=64):
        self.weather = torch.randn(count, weather)
        self.melt = (self.weather @ torch.randn(weather, 8) / 8).sin() + 0.1 * torch.randn(count, 8)

    def __len__(self):
        return len(self.melt)

    def __getitem__(self, picked):
        return self.weather[picked], self.melt[picked]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, 2 * width)
        self.back = nn.Linear(width, width)

    def forward(self, x):
        value, gate = self.gate(self.norm(x)).chunk(2, -1)
        return x + self.back(value * torch.sigmoid(gate))


class Melt(L.LightningModule):
    def __init__(self, weather=64, width=256, depth=9):
        super().__init__()
        self.rise = nn.Linear(weather, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.head = nn.Linear(width, 8)

    def training_step(self, batch, index):
        weather, melt = batch
        loss = F.mse_loss(self.head(self.blocks(self.rise(weather))), melt)
        self.last = loss.detach()
        return loss

    def train_dataloader(self):
        seasons = Seasons()
        return DataLoader(seasons, batch_size=None, sampler=BatchSampler(RandomSampler(seasons), 192, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)
