"""Wind power forecast with Lightning on two processes."""
import logging
import tempfile

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


def turbines(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 36, generator=g)
    return TensorDataset(x, x[:, -6:].pow(3).mean(1, keepdim=True))


class Forecaster(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(36, 64), nn.SiLU(), nn.Linear(64, 1))
        self.errors = []

    def training_step(self, batch, idx):
        x, y = batch
        loss = nn.functional.huber_loss(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, idx):
        x, y = batch
        self.errors.append((self.net(x) - y).abs().mean())

    def on_validation_epoch_end(self):
        mae = torch.stack(self.errors).mean()
        self.errors.clear()
        if self.global_rank == 0:
            self.log("val_mae", mae, sync_dist=True)  #: LINE
            print(f"epoch {self.current_epoch} mae {mae:.4f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    L.seed_everything(1, verbose=False)
    trainer = L.Trainer(accelerator="cpu", strategy="ddp", devices=2, max_epochs=12, num_sanity_val_steps=0, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                        default_root_dir=tempfile.mkdtemp())
    trainer.fit(Forecaster(), DataLoader(turbines(3200, 1), batch_size=16), DataLoader(turbines(320, 2), batch_size=32))
