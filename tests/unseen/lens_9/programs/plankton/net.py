import lightning as L
import torch
import torch.nn.functional as F
from torch import nn

SPECIES = ["diatom", "copepod", "krill", "noctiluca", "radiolaria", "ciliate", "rotifer", "salp", "larva", "detritus"]


class Plankton(L.LightningModule):
    def __init__(self, lr=0.02):
        super().__init__()
        self.lr = lr
        self.features = nn.Sequential(
            nn.Conv2d(1, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 48, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(48, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.classify = nn.Linear(256, len(SPECIES))

    def forward(self, x):
        return self.classify(self.features(x))

    def training_step(self, batch, _):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        self.log("train/loss", loss)
        right = (logits.argmax(1) == y).float()
        for k, species in enumerate(SPECIES):
            of_kind = (y == k).float()
            self.log(f"train/recall_{species}", (right * of_kind).sum() / of_kind.sum().clamp(min=1), sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.lr, momentum=0.9)
