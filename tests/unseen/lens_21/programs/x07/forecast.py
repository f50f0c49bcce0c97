import lightning as L
import torch
from torch import nn

from stations import NAMES, loader


class Forecast(L.LightningModule):
    def __init__(self, features=160, width=384, batch=640):
        super().__init__()
        self.batch = batch
        self.net = nn.Sequential(
            nn.Linear(features, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, len(NAMES)),
        )

    def training_step(self, batch, index):
        before, after = batch
        wrong = (self.net(before) - after).square().mean(0)
        for name, value in zip(NAMES, wrong.detach()):
            self.log(f"train/{name}", value, on_step=True, on_epoch=False, sync_dist=True)  #: LINE
        self.last = wrong.mean()
        return self.last

    def train_dataloader(self):
        return loader(self.batch, self.trainer.global_rank, self.trainer.world_size)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
