import lightning as L
import torch
from torch import nn
from torchmetrics.classification import MultilabelAUROC


class Tagger(L.LightningModule):
    """Several labels for each picture."""

    def __init__(self, labels=14, c=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(),
            nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(c, 2 * c, 3, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * c, labels),
        )
        self.auroc = MultilabelAUROC(num_labels=labels, average="macro")

    def training_step(self, batch, index):
        x, y = batch
        logits = self.net(x)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, y.float())
        self.auroc.update(logits.detach().sigmoid(), y)
        self.log("train_auroc", self.auroc.compute(), prog_bar=False)  #: LINE
        self.log("train_loss", loss.detach())
        return loss

    def on_train_epoch_end(self):
        self.auroc.reset()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3)
