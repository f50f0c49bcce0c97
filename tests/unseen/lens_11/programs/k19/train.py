"""Heartbeat classification with lightning; the loss goes to TensorBoard in each step."""
import tempfile

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.loggers import TensorBoardLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pace import Pace


class Beats(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(2, 64, 11, stride=2), nn.ReLU(), nn.Conv1d(64, 128, 7), nn.ReLU(),
                                  nn.Conv1d(128, 128, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten())
        self.head = nn.Linear(512, 5)

    def training_step(self, batch, index):
        beats, kind = batch
        logits = self.head(self.body(beats))
        loss = F.cross_entropy(logits, kind)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Clock(L.Callback):
    def __init__(self):
        self.pace = Pace()

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        self.pace.tick()


if __name__ == "__main__":
    L.seed_everything(9)
    beats = TensorDataset(torch.randn(1024, 2, 256), torch.randint(0, 5, (1024,)))
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(accelerator="cpu", devices=1, max_steps=62, callbacks=[clock], enable_checkpointing=False,
                            logger=TensorBoardLogger(folder), log_every_n_steps=1, enable_progress_bar=False,
                            enable_model_summary=False)
        trainer.fit(Beats(), DataLoader(beats, batch_size=32, shuffle=True))
    clock.pace.report()
