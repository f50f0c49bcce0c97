import statistics
import tempfile
import time

import lightning as L
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from keep import KeepBest


class Pace(L.Callback):
    def __init__(self):
        self.times, self.before = [], None

    def on_train_batch_start(self, *rest):
        now = time.perf_counter()
        if self.before is not None:
            self.times.append(1e3 * (now - self.before))
        self.before = now


class Tastes(L.LightningModule):
    """Fills in what a visitor of a library has not read yet."""

    def __init__(self, books=1600, width=900):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(books, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, books))

    def training_step(self, batch, index):
        (read,) = batch
        seen = read * (torch.rand_like(read) < 0.8)
        self.last = nn.functional.binary_cross_entropy_with_logits(self.net(seen), read)
        return self.last

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-4, fused=True)


def visitors(batch, count=2400, books=1600):
    tastes = torch.rand(count, 6) @ torch.rand(6, books) / 6
    read = TensorDataset((torch.rand(count, books) < tastes ** 2).float())
    return DataLoader(read, batch_size=None, sampler=BatchSampler(RandomSampler(read), batch, drop_last=True))


def main(steps=60, batch=64):
    L.seed_everything(0, verbose=False)
    model, pace, keep = Tastes(), Pace(), KeepBest()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(accelerator="cpu", devices=1, max_steps=steps, max_epochs=-1, logger=False,
                            default_root_dir=folder, callbacks=[pace, keep], enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(model, visitors(batch))
    print(f"loss {model.last.item():.6f} after {trainer.global_step} steps, best {keep.best:.6f}")
    print(f"{statistics.median(pace.times[3:]):.2f} ms/step median, {statistics.mean(pace.times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
