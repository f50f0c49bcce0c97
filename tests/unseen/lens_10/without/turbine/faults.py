import lightning as L
import torch
from torch import nn
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix, MulticlassF1Score

KINDS = 6


class FaultFinder(L.LightningModule):
    def __init__(self, channels=12, width=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(channels, width, 9, stride=2, padding=4), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 9, padding=4), nn.BatchNorm1d(width), nn.ReLU(), nn.AdaptiveAvgPool1d(8), nn.Flatten())
        self.head = nn.Linear(8 * width, KINDS)
        self.metrics = MetricCollection({
            "accuracy": MulticlassAccuracy(KINDS),
            "f1": MulticlassF1Score(KINDS),
            "confusion": MulticlassConfusionMatrix(KINDS),
        }, compute_groups=False)
        self.seen = []

    def training_step(self, batch, batch_idx):
        signal, kind = batch
        logits = self.head(self.body(signal))
        values = self.metrics(logits.detach(), kind)
        self.seen.append(values["f1"])
        return nn.functional.cross_entropy(logits, kind)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)
