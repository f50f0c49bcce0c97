import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from eye import Eye


class Plates(Dataset):
    """Small and large pictures of number plates. Takes a list of places, gives a batch."""

    def __init__(self, count=800, size=32):
        rough = torch.rand(count, 1, size // 4, size // 4)
        self.large = (F.interpolate(rough, size=size, mode="bilinear") > 0.5).float()
        self.small = F.avg_pool2d(self.large, 2) + 0.05 * torch.randn(count, 1, size // 2, size // 2)

    def __len__(self):
        return len(self.large)

    def __getitem__(self, picked):
        return self.small[picked], self.large[picked]


class Sharpen(L.LightningModule):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, 4, 3, padding=1), nn.PixelShuffle(2),
        )
        self.eye = Eye()

    def training_step(self, batch, index):
        small, large = batch
        guess = self.net(small)
        with torch.no_grad():
            wanted = self.eye(large)["stage2"]
        seen = self.eye(guess)["stage2"]  #: LINE
        loss = F.l1_loss(guess, large) + 0.1 * F.mse_loss(seen, wanted)
        self.last = loss.detach()
        return loss

    def train_dataloader(self):
        plates = Plates()
        return DataLoader(plates, batch_size=None, sampler=BatchSampler(RandomSampler(plates), 16, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)
