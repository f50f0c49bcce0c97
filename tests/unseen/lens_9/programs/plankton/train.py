import statistics
import time
import warnings

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy

from net import Plankton

warnings.filterwarnings("ignore")


class Images(torch.utils.data.Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(3)
        self.x = torch.rand(256, 1, 40, 40, generator=g)
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.x[i % 256], i % 10


class Watch(pl.Callback):
    def on_train_start(self, trainer, module):
        self.times = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.times.append(time.perf_counter())


if __name__ == "__main__":
    pl.seed_everything(0, verbose=False)
    watch = Watch()
    trainer = pl.Trainer(accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend="gloo"), max_steps=62,
                         callbacks=[watch], logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Plankton(), torch.utils.data.DataLoader(Images(8000), batch_size=32, shuffle=True))
    ms = [1e3 * (b - a) for a, b in zip(watch.times, watch.times[1:])][3:]
    if trainer.is_global_zero:
        print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step", flush=True)
    del trainer
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
