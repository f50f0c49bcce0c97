import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler


class Panes(Dataset):
    """Photographs of glass panes, clean and with a bubble. Takes a list of places, gives a batch."""

    def __init__(self, count, side=24):
        self.bubble = torch.rand(count) < 0.5
        self.panes = 0.5 * torch.randn(count, 1, side, side)
        self.panes[self.bubble, :, 8:12, 8:12] += 1.0

    def __len__(self):
        return len(self.panes)

    def __getitem__(self, picked):
        return self.panes[picked], self.bubble[picked].float()


def loader(panes, batch):
    return DataLoader(panes, batch_size=None, sampler=BatchSampler(RandomSampler(panes), batch, drop_last=True))


class Glass(L.LightningModule):
    def __init__(self, width=40):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, 1, 1), nn.GELU(), nn.Conv2d(width, width, 3, 2, 1), nn.GELU(),
            nn.Conv2d(width, 2 * width, 3, 1, 1), nn.GELU(), nn.Conv2d(2 * width, 2 * width, 3, 2, 1), nn.GELU(),
            nn.Flatten(), nn.Linear(72 * width, 1),
        )

    def training_step(self, batch, index):
        panes, bubble = batch
        self.last = F.binary_cross_entropy_with_logits(self.net(panes)[:, 0], bubble)
        return self.last

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
