import logging
import statistics
import time
import warnings

import lightning as L
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from faults import KINDS, FaultFinder

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Seconds(L.Callback):
    def on_train_start(self, trainer, module):
        self.ends = [time.perf_counter()]

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.ends.append(time.perf_counter())


def signals(count):
    kind = torch.arange(count) % KINDS
    t = torch.linspace(0, 20, 400)
    wave = torch.sin(t * (1 + kind[:, None, None]) + torch.rand(count, 12, 1) * 6)
    return TensorDataset(wave + 0.5 * torch.randn(count, 12, 400), kind)


def main():
    L.seed_everything(1, verbose=False)
    watch = Seconds()
    trainer = L.Trainer(max_steps=64, accelerator="cpu", devices=2, strategy="ddp", logger=False, callbacks=[watch],
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    module = FaultFinder()
    trainer.fit(module, DataLoader(signals(960), batch_size=16, shuffle=True))
    if trainer.is_global_zero:
        ms = [(b - a) * 1000 for a, b in zip(watch.ends, watch.ends[1:])][3:]
        print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")
    del module, trainer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
