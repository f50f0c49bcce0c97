import statistics
import time
import warnings

import lightning as L
import torch
import torch.distributed as dist
from torch import nn
from lightning.pytorch.strategies import DDPStrategy

from batches import TokenBatches

warnings.filterwarnings("ignore")


class Messages(L.LightningModule):
    def __init__(self, d=144):
        super().__init__()
        self.emb = nn.Embedding(800, d)
        self.layers = nn.Sequential(*[nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d)) for _ in range(5)])
        self.head = nn.Linear(d, 6)

    def training_step(self, batch, idx):
        ids, y = batch
        h = self.layers(self.emb(ids)).mean(1)
        return nn.functional.cross_entropy(self.head(h), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class StepTimes(L.Callback):
    def setup(self, trainer, module, stage):
        self.t = []

    def on_train_batch_end(self, trainer, module, *rest):
        self.t.append(time.perf_counter())


def main():
    L.seed_everything(3, verbose=False)
    times = StepTimes()
    trainer = L.Trainer(accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend="gloo"), max_steps=62, callbacks=[times],
                        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False)
    trainer.fit(Messages(), torch.utils.data.DataLoader(TokenBatches(), batch_size=None))
    ms = [(b - a) * 1e3 for a, b in zip(times.t, times.t[1:])][3:]
    if trainer.is_global_zero:
        print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step", flush=True)


main()
if dist.is_initialized():
    dist.barrier()
    dist.destroy_process_group()
