import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler
import lightning as L


class Peaks(Dataset):
    """Spectra and how much of each of eight stuffs is in them. Takes a list of places, gives a batch."""

    def __init__(self, count=64000, channels=220, stuffs=8):
        self.shares = torch.rand(count, stuffs)
        self.spectra = self.shares @ torch.rand(stuffs, channels) + 0.1 * torch.randn(count, channels)

    def __len__(self):
        return len(self.shares)

    def __getitem__(self, picked):
        return self.spectra[picked], self.shares[picked]


class Mixture(L.LightningModule):
    def __init__(self, channels=220, width=400, stuffs=8):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(channels, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, stuffs),
        )

    def training_step(self, batch, index):
        spectra, shares = batch
        self.last = F.mse_loss(self.net(spectra), shares)
        return self.last

    def train_dataloader(self):
        torch.manual_seed(3)
        peaks = Peaks()
        ranks = DistributedSampler(peaks, self.trainer.world_size, self.trainer.global_rank)
        return DataLoader(peaks, batch_size=None, sampler=BatchSampler(ranks, 1024, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
