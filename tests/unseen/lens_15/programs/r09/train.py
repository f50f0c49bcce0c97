import logging
import statistics
import time
import warnings

import lightning as L

from listening import Keywords, Spotter

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class StepTimes(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.ends.append(time.perf_counter())


def main():
    L.seed_everything(0, verbose=False)
    times = StepTimes()
    trainer = L.Trainer(
        max_steps=62, accelerator="cpu", devices=1, callbacks=[times], num_sanity_val_steps=0,
        val_check_interval=3,  #: LINE
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(Spotter(), datamodule=Keywords())
    steps = [1e3 * (b - a) for a, b in zip(times.ends, times.ends[1:])][3:]
    print(f"val accuracy {trainer.callback_metrics['val_accuracy']:.3f}")
    print(f"{statistics.median(steps):.2f} ms/step median, {statistics.mean(steps):.2f} ms/step")


main()
