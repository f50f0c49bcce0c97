import statistics
import tempfile
import time
import warnings

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

from lora import Tuned

warnings.filterwarnings("ignore")


class Clock(L.Callback):
    def __init__(self):
        self.marks = []

    def on_train_batch_end(self, *args):
        self.marks.append(time.perf_counter())


def main(steps=64, batch=12):
    L.seed_everything(3, verbose=False)
    loader = DataLoader(TensorDataset(torch.randint(1500, (steps * batch, 49))), batch_size=batch, shuffle=True)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, callbacks=[clock],
        )
        trainer.fit(Tuned(folder), loader)
    times = [1e3 * (b - a) for a, b in zip(clock.marks, clock.marks[1:])][2:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
