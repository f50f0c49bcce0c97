import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler


class Swell(Dataset):
    """Two minutes of a buoy's heave, and the sea state of the hour. Takes a list of places, gives a batch."""

    def __init__(self, count=10000, length=120, states=6):
        self.state = torch.arange(count) % states
        clock = torch.arange(length) * (0.2 + 0.1 * self.state[:, None])
        self.heave = (clock + 6 * torch.rand(count, 1)).sin() + 0.4 * torch.randn(count, length)

    def __len__(self):
        return len(self.state)

    def __getitem__(self, picked):
        return self.heave[picked].unsqueeze(1), self.state[picked]


class Buoy(L.LightningModule):
    def __init__(self, width=64, states=6):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 7, 2, 3), nn.ReLU(), nn.Conv1d(width, width, 5, 1, 2), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 5, 2, 2), nn.ReLU(), nn.Conv1d(2 * width, 2 * width, 3, 1, 1), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2 * width, states),
        )

    def training_step(self, batch, index):
        heave, state = batch
        self.last = F.cross_entropy(self.net(heave), state)
        self.log("train/loss", self.last, on_step=False, on_epoch=True, sync_dist=True, batch_size=len(state))
        return self.last

    def train_dataloader(self):
        torch.manual_seed(5)
        swell = Swell()
        ranks = DistributedSampler(swell, self.trainer.world_size, self.trainer.global_rank)
        return DataLoader(swell, batch_size=None, sampler=BatchSampler(ranks, 80, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
