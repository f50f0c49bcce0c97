import lightning as L
import torch
from torch import nn
from torchmetrics.classification import MulticlassAccuracy


class Cells(L.LightningModule):
    def __init__(self, kinds=8, c=28):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(c, 2 * c, 3, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU(),
            nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * c, kinds),
        )
        self.accuracy = MulticlassAccuracy(num_classes=kinds)

    def training_step(self, batch, index):
        x, y = batch
        out = self.net(x)
        loss = nn.functional.cross_entropy(out, y)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)
