import logging
import shutil
import statistics
import tempfile
import time
import warnings

import lightning as L
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from torch import nn

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Wear(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(9, 192, batch_first=True)
        self.out = nn.Linear(192, 1)
        self.stamps = []

    def training_step(self, batch, batch_idx):
        x, y = batch
        guess = self.out(self.gru(x)[0][:, -1]).squeeze(1)
        loss = nn.functional.l1_loss(guess, y)
        self.log("loss", loss)
        self.log("guess/mean", guess.mean())
        self.log("guess/spread", guess.std())
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.stamps.append(time.perf_counter())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    L.seed_everything(4, verbose=False)
    x = torch.randn(640, 70, 9)
    rides = torch.utils.data.TensorDataset(x, x[:, :, 0].abs().mean(1))
    folder = tempfile.mkdtemp()
    module = Wear()
    trainer = L.Trainer(max_steps=64, accelerator="cpu", devices=1, logger=TensorBoardLogger(folder), log_every_n_steps=1,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(module, torch.utils.data.DataLoader(rides, batch_size=32, shuffle=True))
    trainer.logger.experiment.close()
    shutil.rmtree(folder)
    ms = [1000 * (b - a) for a, b in zip(module.stamps, module.stamps[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")


main()
