import lightning as L
import torch
from torch import nn
from torch.nn import functional as F


def backbone(width=40):
    """Stands for a net that was trained elsewhere."""
    torch.manual_seed(42)
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
    ).eval()


class Saliency(L.LightningModule):
    """Where people look: a head is trained on the features of a finished net."""

    def __init__(self, width=40):
        super().__init__()
        self.backbone = backbone(width)
        self.head = nn.Sequential(
            nn.Conv2d(2 * width, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(),
            nn.Conv2d(128, 1, 1), nn.Upsample(scale_factor=4, mode="bilinear"),
        )

    def forward(self, pictures):
        features = self.backbone(pictures)  #: LINE
        return self.head(features)

    def training_step(self, batch, index):
        pictures, looks = batch
        return F.binary_cross_entropy_with_logits(self(pictures), looks)

    def on_train_epoch_start(self):
        self.backbone.eval()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.head.parameters(), lr=1e-3)


class Scenes(torch.utils.data.IterableDataset):
    def __init__(self, batch=10, side=48, seed=0):
        self.batch, self.side, self.seed = batch, side, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        axis = torch.arange(self.side)
        while True:
            place = self.side * torch.rand(self.batch, 2, 1, generator=g)
            across = torch.exp(-((axis - place[:, 0]) ** 2) / 60)
            down = torch.exp(-((axis - place[:, 1]) ** 2) / 60)
            looks = (down[:, :, None] * across[:, None, :])[:, None]
            yield looks + 0.3 * torch.randn(self.batch, 3, self.side, self.side, generator=g), looks
