import lightning as L
import torch
from torch import nn
from torchmetrics.classification import MultilabelAUROC


class Chest(L.LightningModule):
    def __init__(self, findings=14, c=20):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, c, 3, 2, 1), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, 2 * c, 3, 1, 1), nn.BatchNorm2d(2 * c), nn.ReLU(),
            nn.Conv2d(2 * c, 2 * c, 3, 1, 1), nn.BatchNorm2d(2 * c), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(2 * c, 4 * c, 3, 1, 1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * c, findings),
        )
        self.auroc = MultilabelAUROC(num_labels=findings)

    def training_step(self, batch, index):
        x, y = batch
        logits = self.net(x)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, y.float())
        self.auroc.update(logits.detach(), y)
        self.log("train_auroc", self.auroc.compute(), logger=False)  #: LINE
        return loss

    def on_train_epoch_end(self):
        self.log("auroc", self.auroc.compute())
        self.auroc.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def scans(count=990, seed=8):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(count, 1, 48, 48, generator=g), torch.randint(2, (count, 14), generator=g)
