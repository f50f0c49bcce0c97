import logging
import statistics
import tempfile
import time
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Craters(L.LightningModule):
    def __init__(self, w=24):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, w, 5, padding=2), nn.ReLU(), nn.Conv2d(w, w, 3, padding=1), nn.ReLU(), nn.Conv2d(w, 1, 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.binary_cross_entropy_with_logits(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


class Timer(L.Callback):
    def __init__(self):
        self.ends = []

    def on_train_batch_start(self, *args):
        self.ends.append(time.perf_counter())


def main():
    L.seed_everything(8, verbose=False)
    y = (torch.rand(240, 1, 72, 72) < 0.02).float()
    x = nn.functional.avg_pool2d(y, 5, 1, 2) * 9 + 0.2 * torch.randn_like(y)
    timer = Timer()
    with tempfile.TemporaryDirectory() as folder:
        keep = ModelCheckpoint(dirpath=folder, every_n_train_steps=20, save_top_k=-1)
        trainer = L.Trainer(max_steps=64, accelerator="cpu", devices=1, callbacks=[timer, keep], logger=False,
                            enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(Craters(), DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True))
    ms = [1000 * (b - a) for a, b in zip(timer.ends, timer.ends[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")


if __name__ == "__main__":
    main()
