import logging
import statistics
import tempfile
import time
import warnings

import lightning as L

from classifier import Classifier
from photos import loader

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Clock(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.ends.append(time.perf_counter())


def main():
    L.seed_everything(0, verbose=False)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_steps=60, accelerator="cpu", devices=1, callbacks=[clock], logger=False, default_root_dir=folder,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        )
        trainer.fit(Classifier(), loader())
    steps = [1e3 * (b - a) for a, b in zip(clock.ends, clock.ends[1:])][2:]
    print(f"{statistics.median(steps):.2f} ms/step median, {statistics.mean(steps):.2f} ms/step")


if __name__ == "__main__":
    main()
