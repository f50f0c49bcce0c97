import logging
import os
import statistics
import time
import warnings

import lightning as L
from lightning.pytorch.strategies import DDPStrategy

from harbour import Harbour, stays

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Laps(L.Callback):
    def __init__(self):
        self.begins = []

    def on_train_batch_start(self, trainer, module, batch, index):
        self.begins.append(time.perf_counter())

    def on_train_end(self, trainer, module):
        self.begins.append(time.perf_counter())


def main(batch=768):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    L.seed_everything(0, verbose=False)
    laps = Laps()
    trainer = L.Trainer(
        max_steps=60,
        accelerator="cpu",
        devices=world,
        strategy=DDPStrategy(process_group_backend="gloo", gradient_as_bucket_view=True),
        use_distributed_sampler=False,
        callbacks=[laps],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Harbour(), stays(batch, rank, world))
    if rank == 0:
        times = [1e3 * (b - a) for a, b in zip(laps.begins, laps.begins[1:])]
        print(f"loss {trainer.callback_metrics['train/loss'].item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
