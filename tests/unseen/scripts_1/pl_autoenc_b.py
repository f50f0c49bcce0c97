"""Lightning autoencoder; best weights are stored by hand at the end of validation."""
import os
import tempfile
from datetime import timedelta

import lightning as L
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AutoEncoder(L.LightningModule):
    def __init__(self, dim=12, code=3, folder=None):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(dim, 8), nn.ReLU(), nn.Linear(8, code))
        self.dec = nn.Sequential(nn.Linear(code, 8), nn.ReLU(), nn.Linear(8, dim))
        self.folder = folder
        self.best = float("inf")

    def _loss(self, batch):
        (x,) = batch
        return nn.functional.mse_loss(self.dec(self.enc(x)), x)

    def training_step(self, batch, batch_idx):
        loss = self._loss(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self._loss(batch), sync_dist=True)

    def on_validation_epoch_end(self):
        if self.trainer.sanity_checking:
            return
        value = self.trainer.callback_metrics["val_loss"].item()
        if value < self.best:
            self.best = value
            if self.trainer.is_global_zero:
                self.trainer.save_checkpoint(os.path.join(self.folder, "best.ckpt"))
                print(f"val_loss {value:.4f} (saved)")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def loaders():
    g = torch.Generator().manual_seed(21)
    base = torch.randn(80, 3, generator=g) @ torch.randn(3, 12, generator=g)
    return (
        DataLoader(TensorDataset(base[:64]), batch_size=8, shuffle=True),
        DataLoader(TensorDataset(base[64:]), batch_size=8),
    )


def main():
    L.seed_everything(77)
    folder = os.path.join(tempfile.gettempdir(), "pl_autoenc_ckpt")
    model = AutoEncoder(folder=folder)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend="gloo", timeout=timedelta(seconds=20)),
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    train, val = loaders()
    trainer.fit(model, train, val)
    trainer.print("done, best", round(model.best, 4))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
