import logging
import statistics
import time
import warnings

import lightning as L
import torch
from torch import nn

from hives import HiveData

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Swarming(L.LightningModule):
    def __init__(self, channels=8, width=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(channels, width, 7, padding=3), nn.ReLU(), nn.Conv1d(width, width, 7, padding=3), nn.ReLU(),
            nn.MaxPool1d(2), nn.Conv1d(width, 2 * width, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2 * width, 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.binary_cross_entropy_with_logits(self.net(x).squeeze(1), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Lap(L.Callback):
    stamps = []

    def on_train_batch_end(self, *args):
        self.stamps.append(time.perf_counter())


if __name__ == "__main__":
    L.seed_everything(0, verbose=False)
    trainer = L.Trainer(max_epochs=8, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, callbacks=[Lap()])
    trainer.fit(Swarming(), datamodule=HiveData())
    laps = [1000 * (b - a) for a, b in zip(Lap.stamps, Lap.stamps[1:])][3:]
    print(f"{statistics.median(laps):.2f} ms/step median, {statistics.mean(laps):.2f} ms/step")
