import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy


class Keywords(L.LightningDataModule):
    def __init__(self, batch_size=48):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage=None):
        g = torch.Generator().manual_seed(0)
        labels = torch.randint(12, (4000,), generator=g)
        tones = torch.randn(12, 40, 1, generator=g)
        features = tones[labels] + torch.randn(4000, 40, 64, generator=g)
        self.train = TensorDataset(features[:3600], labels[:3600])
        self.held_out = TensorDataset(features[3600:3720], labels[3600:3720])

    def train_dataloader(self):
        return DataLoader(self.train, self.batch_size, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.held_out, 60)


class Spotter(L.LightningModule):
    def __init__(self, width=128, classes=12):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(40, width, 5, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
        )
        self.out = nn.Linear(width, classes)
        self.accuracy = MulticlassAccuracy(classes)

    def forward(self, x):
        return self.out(self.body(x).mean(2))

    def training_step(self, batch, index):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def validation_step(self, batch, index):
        x, y = batch
        logits = self(x)
        self.accuracy(logits, y)
        self.log("val_loss", F.cross_entropy(logits, y))
        self.log("val_accuracy", self.accuracy)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)
