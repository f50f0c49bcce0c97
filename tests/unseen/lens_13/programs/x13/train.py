import logging
import statistics
import tempfile
import time
import warnings

import lightning as L
from torch.utils.data import DataLoader, TensorDataset

from chest import Chest, scans

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")


class Clock(L.Callback):
    def __init__(self):
        self.marks = []

    def on_train_batch_end(self, *args):
        self.marks.append(time.perf_counter())


def main():
    L.seed_everything(0, verbose=False)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_steps=62, max_epochs=1, accelerator="cpu", devices=1, callbacks=[clock], logger=False, default_root_dir=folder,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        )
        trainer.fit(Chest(), DataLoader(TensorDataset(*scans()), batch_size=15, shuffle=True))
    times = [1e3 * (b - a) for a, b in zip(clock.marks, clock.marks[1:])][2:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
