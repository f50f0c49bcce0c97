import statistics
import time
import warnings

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

from tagger import Tagger

warnings.filterwarnings("ignore")


class Clock(L.Callback):
    def __init__(self):
        self.marks = []

    def on_train_batch_end(self, *args):
        self.marks.append(time.perf_counter())

    def report(self):
        times = [1e3 * (b - a) for a, b in zip(self.marks, self.marks[1:])][2:]
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


def main():
    L.seed_everything(7, verbose=False)
    pictures = torch.rand(32 * 62, 3, 32, 32)
    labels = (torch.rand(len(pictures), 14) < 0.3).long()
    loader = DataLoader(TensorDataset(pictures, labels), batch_size=32, shuffle=True)
    clock = Clock()
    trainer = L.Trainer(
        accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[clock],
    )
    trainer.fit(Tagger(), loader)
    clock.report()


main()
