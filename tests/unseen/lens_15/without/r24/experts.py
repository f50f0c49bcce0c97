import lightning as L
import torch
from torch import nn
from torch.nn import functional as F


class MultiTask(L.LightningModule):
    """Six targets from one body, each with a head, a loss and an error of its own."""

    def __init__(self, features=96, width=640, tasks=6):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(tasks))
        self.weights = [1.0 / (k + 1) for k in range(tasks)]

    def forward(self, x):
        h = self.body(x)
        return torch.cat([head(h) for head in self.heads], 1)

    def training_step(self, batch, index):
        x, y = batch
        out = self(x)
        losses = F.huber_loss(out, y, reduction="none").mean(0)
        errors = (out.detach() - y).abs().mean(0)
        loss = sum(w * l for w, l in zip(self.weights, losses))
        self.report(loss, losses, errors)
        return loss

    def report(self, loss, losses, errors):
        values = {"train/loss": loss.detach(), "train/error": errors.mean()}
        for k in range(len(losses)):
            values[f"train/loss_{k}"] = losses[k].detach()
            values[f"train/error_{k}"] = errors[k]
        self.log_dict(values)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)
