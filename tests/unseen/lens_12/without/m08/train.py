import logging
import statistics
import time
import warnings

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

from seismic import PhasePicker

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Rhythm(L.Callback):
    def __init__(self):
        self.beats = []

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        self.beats.append(time.perf_counter())


def traces(count, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, 256, generator=g)
    onset = torch.randint(40, 200, (count,), generator=g)
    for row, k in enumerate(onset.tolist()):
        x[row, :, k:] *= 2.5
    return TensorDataset(x, onset)


def main():
    L.seed_everything(1)
    rhythm = Rhythm()
    trainer = L.Trainer(accelerator="cpu", devices=1, max_steps=62, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
                        limit_val_batches=0, callbacks=[rhythm])
    trainer.fit(PhasePicker(), DataLoader(traces(512, 0), batch_size=24, shuffle=True, drop_last=True),
                DataLoader(traces(12, 1), batch_size=12))
    ms = [1000 * (b - a) for a, b in zip(rhythm.beats, rhythm.beats[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")


main()
