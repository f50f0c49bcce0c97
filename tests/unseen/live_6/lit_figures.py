"""Lightning: long validation with figures drawn by the first process, checkpoints and early stopping on synchronised values."""
import math
import tempfile
import time

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.utilities import rank_zero_only
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def stars(n, seed):
    g = torch.Generator().manual_seed(seed)
    flux = torch.rand(n, 40, generator=g)
    return TensorDataset(flux, flux.std(1, keepdim=True))


class Variability(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(40, 48), nn.ReLU(), nn.Linear(48, 1))

    def training_step(self, batch, i):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch, i):
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self.net(x), y), sync_dist=True)

    @rank_zero_only
    def draw(self, seconds):
        end, n, grid = time.monotonic() + seconds, 0, {}
        while time.monotonic() < end:
            for k in range(4000):
                a = n * 0.001 + k
                cell = int(20 * math.sin(a)), int(20 * math.cos(a * 1.7))
                grid[cell] = grid.get(cell, 0) + 1
            n += 1
        print(f"epoch {self.current_epoch}: figure with {len(grid)} cells", flush=True)

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking and self.current_epoch in (0, 2):
            self.draw(33)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    L.seed_everything(2, verbose=False)
    out = tempfile.mkdtemp()
    trainer = L.Trainer(accelerator="cpu", strategy="ddp", devices=2, max_epochs=4, logger=False, enable_progress_bar=False, enable_model_summary=False,
                        default_root_dir=out, callbacks=[ModelCheckpoint(out, monitor="val_loss"), EarlyStopping("val_loss", patience=3)])
    trainer.fit(Variability(), DataLoader(stars(1200, 1), batch_size=16), DataLoader(stars(320, 2), batch_size=32))


if __name__ == "__main__":
    main()
