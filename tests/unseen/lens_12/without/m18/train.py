import logging
import statistics
import time
import warnings

import lightning as L
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from flow import Flow

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

SETTINGS = dict(
    accelerator="cpu",
    devices=1,
    max_steps=64,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    detect_anomaly=False,
)


class Watch(L.Callback):
    def on_train_start(self, *_):
        self.marks = []

    def on_train_batch_end(self, *_):
        self.marks.append(time.perf_counter())


def main():
    L.seed_everything(0)
    points = torch.randn(52000, 24) @ torch.randn(24, 24)
    watch = Watch()
    trainer = L.Trainer(callbacks=[watch], **SETTINGS)
    batches = BatchSampler(RandomSampler(points), 768, drop_last=True)
    trainer.fit(Flow(), DataLoader(points, sampler=batches, batch_size=None))
    ms = [1000 * (b - a) for a, b in zip(watch.marks, watch.marks[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")


main()
