import lightning as L
import torch
from torch import nn


class YieldModel(L.LightningModule):
    def __init__(self, inputs=48, width=384, depth=5):
        super().__init__()
        layers = [nn.Linear(inputs, width), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x).squeeze(1), y)
        self.log("train/loss", loss)
        return loss

    def on_before_optimizer_step(self, optimizer):
        board = self.logger.experiment
        for name, p in self.named_parameters():
            board.add_histogram(f"weights/{name}", p, self.global_step)
            board.add_histogram(f"grads/{name}", p.grad, self.global_step)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)
