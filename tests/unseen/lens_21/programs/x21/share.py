import torch
from torch import nn
import lightning as L

from soils import STUFFS


class Shares(L.LightningModule):
    def __init__(self, bands=160, width=40):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 7, 2, 3), nn.ReLU(), nn.Conv1d(width, width, 5, 2, 2), nn.ReLU(),
            nn.Conv1d(width, width, 3, 1, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(width * bands // 4, len(STUFFS)), nn.Softmax(1),
        )

    def training_step(self, batch, index):
        light, shares = batch
        errors = (self.net(light.unsqueeze(1)) - shares).square().mean(0)
        loss = errors.mean()
        parts = {"loss": loss.detach(), "worst": errors.detach().max()}
        self.log_dict(parts, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
