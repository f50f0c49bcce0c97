import logging
import statistics
import time
import warnings

import lightning as L

from forecast import Forecaster
from weather import loaders

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class StepTimes(L.Callback):
    def __init__(self):
        self.starts = []

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.starts.append(time.perf_counter())


def main():
    L.seed_everything(0, verbose=False)
    times = StepTimes()
    train, held_out = loaders()
    trainer = L.Trainer(
        max_steps=62, accelerator="cpu", devices=1, callbacks=[times], num_sanity_val_steps=0, logger=False,
        limit_val_batches=0, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(Forecaster(), train, held_out)
    steps = [1e3 * (b - a) for a, b in zip(times.starts, times.starts[1:])][3:]
    print(f"loss {trainer.callback_metrics['loss']:.4f}")
    print(f"{statistics.median(steps):.2f} ms/step median, {statistics.mean(steps):.2f} ms/step")


main()
