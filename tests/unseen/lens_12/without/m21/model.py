import lightning as L
import torch
from torch import nn
from torchmetrics.classification import MulticlassAUROC, MulticlassAveragePrecision, MulticlassConfusionMatrix


class SkyClassifier(L.LightningModule):
    def __init__(self, classes=6):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(),
            nn.Conv2d(32, 48, 3, padding=1, stride=2), nn.ReLU(),
            nn.Conv2d(48, 64, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))
        self.auroc = MulticlassAUROC(classes)
        self.precision = MulticlassAveragePrecision(classes)
        self.confusion = MulticlassConfusionMatrix(classes)

    def training_step(self, batch, index):
        x, y = batch
        scores = self.net(x)
        loss = nn.functional.cross_entropy(scores, y)
        self.auroc.update(scores.detach().softmax(-1), y)
        self.precision.update(scores.detach().softmax(-1), y)
        self.confusion.update(scores.detach(), y)
        return loss

    def on_train_epoch_end(self):
        self.log("auroc", self.auroc.compute())
        self.log("precision", self.precision.compute())
        self.hits = self.confusion.compute().diag().sum()
        self.auroc.reset()
        self.precision.reset()
        self.confusion.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)
