import logging
import shutil
import statistics
import tempfile
import time

import lightning as L
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from torch.utils.data import DataLoader, TensorDataset

from module import YieldModel

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Pace(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.ends.append(time.perf_counter())


def main():
    L.seed_everything(6, verbose=False)
    x = torch.randn(512 * 16, 48)
    y = x[:, :5].sum(1) + 0.1 * torch.randn(len(x))
    folder = tempfile.mkdtemp()
    pace = Pace()
    trainer = L.Trainer(max_steps=64, accelerator="cpu", devices=1, logger=TensorBoardLogger(folder), callbacks=[pace],
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(YieldModel(), DataLoader(TensorDataset(x, y), batch_size=512, shuffle=True))
    trainer.logger.experiment.close()
    shutil.rmtree(folder)
    ms = [(b - a) * 1000 for a, b in zip(pace.ends, pace.ends[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")


if __name__ == "__main__":
    main()
