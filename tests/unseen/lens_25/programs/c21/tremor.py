import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Tremor(L.LightningModule):
    """Tells from the first seconds of a seismogram how strong the quake will be."""

    def __init__(self, width=384):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(3, 32, 9, 4, 4), nn.GELU(), nn.Conv1d(32, 64, 5, 4, 2), nn.GELU(), nn.Flatten())
        self.rest = nn.Sequential(
            nn.Linear(64 * 16, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1)
        )
        self.last = None

    def training_step(self, batch, index):
        waves, strength = batch
        loss = F.smooth_l1_loss(self.rest(self.stem(waves)).squeeze(1), strength)
        self.last = loss.detach()
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def quakes(rank, ranks, batch, count=4096, length=256):
    made = torch.Generator().manual_seed(31)
    strength = torch.rand(count, generator=made)
    waves = torch.randn(count, 3, length, generator=made) * (0.5 + strength[:, None, None])
    data = TensorDataset(waves, strength)
    sampler = DistributedSampler(data, ranks, rank, seed=5)
    return DataLoader(data, batch_size=batch, sampler=sampler, drop_last=True)
