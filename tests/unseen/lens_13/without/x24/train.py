import logging
import statistics
import tempfile
import time
import warnings

import lightning as L
import torch
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

from cells import Cells

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")


class Clock(L.Callback):
    def __init__(self):
        self.marks = []

    def on_train_batch_end(self, *args):
        self.marks.append(time.perf_counter())


def main():
    L.seed_everything(0, verbose=False)
    g = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(256, 3, 32, 32, generator=g), torch.randint(8, (256,), generator=g))
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_steps=64, accelerator="cpu", devices=1, logger=CSVLogger(folder), callbacks=[clock], log_every_n_steps=16,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        )
        trainer.fit(Cells(), DataLoader(data, batch_size=16, shuffle=True))
        trainer.save_checkpoint(f"{folder}/last.ckpt", weights_only=True)
    times = [1e3 * (b - a) for a, b in zip(clock.marks, clock.marks[1:])][2:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
