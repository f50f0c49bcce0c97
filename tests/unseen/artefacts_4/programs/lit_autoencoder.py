"""Autoencoder with Lightning, DDP on two or more CPU processes."""
import os

import flightdump  # noqa: F401
import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

OUT = os.environ.get("OUT_DIR", "out")


class AutoEncoder(L.LightningModule):
    def __init__(self, width=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, width))
        self.decoder = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 128))
        self.epoch_losses = []

    def training_step(self, batch, batch_idx):
        (x,) = batch
        loss = F.mse_loss(self.decoder(self.encoder(x)), x)
        self.epoch_losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class KeepBest(L.Callback):
    """Keeps the checkpoint of the epoch with the lowest training loss."""

    def __init__(self, folder):
        self.folder = folder
        self.best = float("inf")

    def on_train_epoch_end(self, trainer, module):
        mean = sum(module.epoch_losses) / len(module.epoch_losses)
        module.epoch_losses.clear()
        if trainer.is_global_zero:
            print(f"epoch {trainer.current_epoch} loss {mean:.4f}", flush=True)
            if mean < self.best:
                self.best = mean
                path = os.path.join(self.folder, f"best-{trainer.current_epoch}.ckpt")
                trainer.save_checkpoint(path)


def loader():
    g = torch.Generator().manual_seed(3)
    base = torch.randn(2048, 8, generator=g)
    x = base @ torch.randn(8, 128, generator=g)
    return DataLoader(TensorDataset(x), batch_size=32, shuffle=True)


def main():
    L.seed_everything(1)
    trainer = L.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        max_epochs=6,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[KeepBest(OUT)],
    )
    trainer.fit(AutoEncoder(), loader())


if __name__ == "__main__":
    main()
