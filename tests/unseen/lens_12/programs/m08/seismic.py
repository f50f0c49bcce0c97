import lightning as L
import torch
from torch import nn


class PhasePicker(L.LightningModule):
    def __init__(self, c=48):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(3, c, 9, padding=4), nn.ReLU(), nn.Conv1d(c, c, 9, padding=4), nn.ReLU(),
            nn.Conv1d(c, c, 9, padding=4), nn.ReLU(), nn.Conv1d(c, 1, 1), nn.Flatten())

    def training_step(self, batch, i):
        x, onset = batch
        return nn.functional.cross_entropy(self.net(x), onset)

    def validation_step(self, batch, i):
        x, onset = batch
        away = (self.net(x).argmax(-1) - onset).abs().float().mean()
        self.log("away", away)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)
