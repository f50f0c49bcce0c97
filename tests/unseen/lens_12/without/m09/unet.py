import lightning as L
import torch
from torch import nn


def double(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.ReLU())


class CellUNet(L.LightningModule):
    def __init__(self, c=16):
        super().__init__()
        self.a, self.b, self.mid = double(1, c), double(c, 2 * c), double(2 * c, 2 * c)
        self.up1, self.up2 = double(4 * c, c), double(2 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(nn.functional.max_pool2d(a, 2))
        m = self.mid(nn.functional.max_pool2d(b, 2))
        u = self.up1(torch.cat([nn.functional.interpolate(m, scale_factor=2), b], 1))
        return self.out(self.up2(torch.cat([nn.functional.interpolate(u, scale_factor=2), a], 1)))

    def training_step(self, batch, i):
        x, mask = batch
        return nn.functional.binary_cross_entropy_with_logits(self(x), mask)

    def validation_step(self, batch, i):
        x, mask = batch
        guess = self(x) > 0
        self.log("dice", 2 * (guess * mask).sum() / (guess.sum() + mask.sum() + 1), on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)
