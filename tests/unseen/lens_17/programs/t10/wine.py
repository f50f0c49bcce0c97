import lightning as L
import torch
import torchmetrics
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def bottles(count, seed, kinds=8):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 28, generator=g)
    return TensorDataset(x, (x[:, :kinds] + 0.3 * x[:, kinds:2 * kinds]).argmax(1))


def loaders(batch=288):
    return (
        DataLoader(bottles(288 * 64, 0), batch, shuffle=True, drop_last=True),
        DataLoader(bottles(768, 1), batch),
    )


class Grapes(L.LightningModule):
    """Grape variety from chemistry; a small transformer over the measured values."""

    def __init__(self, width=32, kinds=8):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(28, width))
        self.shift = nn.Parameter(torch.randn(28, width))
        self.layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.out = nn.Linear(width, kinds)
        self.seen = torchmetrics.Accuracy("multiclass", num_classes=kinds)
        self.held_out = torchmetrics.Accuracy("multiclass", num_classes=kinds)

    def forward(self, x):
        return self.out(self.layer(x[..., None] * self.scale + self.shift).mean(1))

    def training_step(self, batch, index):
        x, y = batch
        logits = self(x)
        self.seen.update(logits, y)
        return F.cross_entropy(logits, y)

    def validation_step(self, batch, index):
        x, y = batch
        self.held_out.update(self(x), y)

    def on_validation_epoch_end(self):
        print(f"seen {self.seen.compute():.3f} held out {self.held_out.compute():.3f}")
        self.seen.reset()
        self.held_out.reset()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)
