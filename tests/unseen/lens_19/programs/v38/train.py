import logging
import statistics
import time
import warnings

import lightning as L

from dunes import Dunes, places

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Laps(L.Callback):
    def __init__(self):
        self.begins = []

    def on_train_batch_start(self, trainer, module, batch, index):
        self.begins.append(time.perf_counter())

    def on_train_end(self, trainer, module):
        self.begins.append(time.perf_counter())


def main(batch=448):
    L.seed_everything(0)
    laps = Laps()
    trainer = L.Trainer(
        max_steps=60,
        accelerator="cpu",
        devices=1,
        callbacks=[laps],
        logger=False,
        num_sanity_val_steps=0,
        val_check_interval=30,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Dunes(), places(60 * batch, batch, 0), places(batch // 2, batch // 2, 1))
    print(f"error {trainer.callback_metrics['error'].item():.5f}")
    times = [1e3 * (b - a) for a, b in zip(laps.begins, laps.begins[1:])]
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
