import lightning as L
import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.one = nn.Conv2d(a, b, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(b, b, 3, 1, 1, bias=False)
        self.n1, self.n2 = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
        self.skip = nn.Conv2d(a, b, 1, stride) if stride > 1 or a != b else nn.Identity()

    def forward(self, x):
        h = F.relu(self.n1(self.one(x)))
        return F.relu(self.n2(self.two(h)) + self.skip(x))


class Classifier(L.LightningModule):
    def __init__(self, classes=8, width=24):
        super().__init__()
        self.body = nn.Sequential(
            Residual(3, width, 1), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2)
        )
        self.head = nn.Linear(4 * width, classes)

    def training_step(self, batch, index):
        images, labels = batch
        loss = F.cross_entropy(self.head(self.body(images).mean((2, 3))), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)
