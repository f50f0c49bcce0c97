import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler
import lightning as L


class Hives(Dataset):
    """A hive's weight through a day and a night, and whether the bees will swarm. Takes a list, gives a batch."""

    def __init__(self, count=8000, length=96):
        self.swarm = torch.randint(0, 2, (count,)).float()
        self.weight = (torch.randn(count, 3, length) + 0.1 * self.swarm[:, None, None]).cumsum(2) / 10

    def __len__(self):
        return len(self.swarm)

    def __getitem__(self, picked):
        return self.weight[picked], self.swarm[picked]


class Swarm(L.LightningModule):
    def __init__(self, width=96):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(3, width, 7, 1, 3), nn.ReLU(), nn.Conv1d(width, width, 5, 2, 2), nn.ReLU(),
            nn.Conv1d(width, width, 5, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 1),
        )

    def training_step(self, batch, index):
        weight, swarm = batch
        return F.binary_cross_entropy_with_logits(self.net(weight).squeeze(1), swarm)

    def train_dataloader(self):
        torch.manual_seed(5)
        hives = Hives()
        ranks = DistributedSampler(hives, self.trainer.world_size, self.trainer.global_rank)
        return DataLoader(hives, batch_size=None, sampler=BatchSampler(ranks, 64, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)
