import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torchmetrics import MeanAbsoluteError


class Forecaster(L.LightningModule):
    """The next 12 hours from the last 72, by dilated convolutions."""

    def __init__(self, series=8, width=80, ahead=12):
        super().__init__()
        layers, inside = [], series
        for power in range(5):
            layers += [nn.Conv1d(inside, width, 3, dilation=2**power, padding=2**power), nn.ReLU()]
            inside = width
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(width, series * ahead)
        self.ahead = ahead
        self.error = MeanAbsoluteError()

    def forward(self, past):
        return self.out(self.body(past)[..., -1]).view(len(past), -1, self.ahead)

    def training_step(self, batch, index):
        past, future = batch
        loss = F.huber_loss(self(past), future)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        past, future = batch
        self.error.update(self(past), future)
        self.log("error", self.error)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)]
