import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler


class Beats(Dataset):
    """Heartbeats from two leads, and whether the patient has one of nine troubles. Takes a list of places."""

    def __init__(self, count=3000, length=128, troubles=9):
        self.trouble = (torch.rand(count, troubles) < 0.2).float()
        shape = torch.randn(troubles, 2 * length)
        self.beats = (self.trouble @ shape + torch.randn(count, 2 * length)).unflatten(1, (2, length))

    def __len__(self):
        return len(self.trouble)

    def __getitem__(self, picked):
        return self.beats[picked], self.trouble[picked]


def backbone(width=64):
    """The part that was learned on the large archive of another clinic."""
    return nn.Sequential(
        nn.Conv1d(2, width, 7, padding=3), nn.ReLU(), nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
        nn.Conv1d(width, 2 * width, 5, 2, 2), nn.ReLU(),
    )


class FineTune(L.LightningModule):
    """Learns a new head upon the old backbone."""

    def __init__(self, old_weights, width=64, troubles=9):
        super().__init__()
        self.backbone = backbone(width)
        self.backbone.load_state_dict(old_weights)
        self.head = nn.Sequential(
            nn.Conv1d(2 * width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
            nn.Linear(2 * width, troubles),
        )

    def training_step(self, batch, index):
        beats, trouble = batch
        features = self.backbone(beats)  #: LINE
        loss = F.binary_cross_entropy_with_logits(self.head(features), trouble)
        self.last = loss.detach()
        return loss

    def train_dataloader(self):
        beats = Beats()
        return DataLoader(beats, batch_size=None, sampler=BatchSampler(RandomSampler(beats), 56, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.Adam(self.head.parameters(), lr=2e-3, fused=True)
