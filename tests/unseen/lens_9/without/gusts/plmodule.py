import lightning as L
import torch
from torch import nn


class Gusts(L.LightningModule):
    def __init__(self, sensors=40, width=256, depth=10):
        super().__init__()
        layers = [nn.Linear(sensors * 12, width)]
        for _ in range(depth):
            layers += [nn.LayerNorm(width), nn.SiLU(), nn.Linear(width, width)]
        self.net = nn.Sequential(*layers, nn.Linear(width, sensors))

    def training_step(self, batch, batch_idx):
        past, future = batch
        loss = nn.functional.huber_loss(self.net(past.flatten(1)), future)
        self.log("loss", loss)
        return loss

    def on_before_optimizer_step(self, optimizer):
        if self.global_step % 30 != 0:
            return
        for name, p in self.named_parameters():
            self.log(f"grad_norm/{name}", p.grad.norm())
            self.log(f"weight_norm/{name}", p.detach().norm())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)
