"""Denoising autoencoder with Lightning."""
import logging
import os
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import flightrec  # noqa: F401

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


class Waves(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        f = torch.rand(n, 1, generator=g) * 6 + 1
        t = torch.linspace(0, 3.14, 64)
        self.clean = torch.sin(f * t)
        self.noisy = self.clean + 0.3 * torch.randn(n, 64, generator=g)

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, i):
        return self.noisy[i], self.clean[i]


class Denoiser(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 64))

    def training_step(self, batch, idx):
        noisy, clean = batch
        loss = nn.functional.mse_loss(self.net(noisy), clean)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, idx):
        noisy, clean = batch
        self.log("val_loss", nn.functional.mse_loss(self.net(noisy), clean), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


class KeepBest(L.Callback):
    def __init__(self, folder):
        self.folder = folder
        self.best = None

    def on_validation_end(self, trainer, module):
        if trainer.sanity_checking:
            return
        score = trainer.callback_metrics["val_loss"].item()
        if trainer.is_global_zero:
            if self.best is None or score < self.best:
                self.best = score
                trainer.save_checkpoint(os.path.join(self.folder, "best.ckpt"))
                print(f"epoch {trainer.current_epoch}: new best {score:.4f}", flush=True)


def main():
    L.seed_everything(1)
    trainer = L.Trainer(
        accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp",
        max_epochs=8, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
        callbacks=[KeepBest("denoise")],
    )
    trainer.fit(
        Denoiser(),
        DataLoader(Waves(1024, 0), batch_size=32, shuffle=True),
        DataLoader(Waves(256, 1), batch_size=32),
    )


if __name__ == "__main__":
    main()
