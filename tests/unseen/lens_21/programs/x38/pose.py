import torch
from torch import nn
import lightning as L

from gaits import JOINTS


class Pose(L.LightningModule):
    def __init__(self, sensors=12, width=96):
        super().__init__()
        self.memory = nn.LSTM(sensors, width, batch_first=True)
        self.out = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, len(JOINTS)))

    def forward(self, signals):
        return self.out(self.memory(signals)[0][:, -1])

    def training_step(self, batch, index):
        signals, angles = batch
        errors = (self(signals) - angles).square().mean(0)
        loss = errors.mean()
        self.log_dict({f"train/{joint}": error for joint, error in zip(JOINTS, errors.detach())}, sync_dist=True)  #: LINE
        self.last = loss.detach()
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3, fused=True)
