"""Lightning: fit a tiny autoencoder, write a `last` alias next to the best checkpoint, then test."""
import os
import tempfile

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AutoEncoder(L.LightningModule):
    def __init__(self, width=64, hidden=128):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, 16))
        self.decoder = nn.Sequential(nn.Linear(16, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def training_step(self, batch, _):
        (x,) = batch
        loss = nn.functional.mse_loss(self(x), x)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        (x,) = batch
        self.log("val_loss", nn.functional.mse_loss(self(x), x), sync_dist=True)

    def test_step(self, batch, _):
        (x,) = batch
        self.log("test_loss", nn.functional.mse_loss(self(x), x), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def data(n, seed):
    g = torch.Generator().manual_seed(seed)
    basis = torch.randn(8, 64, generator=g)
    return TensorDataset(torch.randn(n, 8, generator=g) @ basis)


def finalize(trainer, folder):
    """Keep an alias with the weights after the last step for the autoregressive stage."""
    if trainer.is_global_zero:
        alias = os.path.join(folder, "stage1-last.ckpt")
        trainer.save_checkpoint(alias)  #: LINE
        with open(os.path.join(folder, "LATEST"), "w") as f:
            f.write(alias)


def main():
    L.seed_everything(7)
    folder = os.path.join(tempfile.gettempdir(), f"ae-{os.environ.get('TORCHELASTIC_RUN_ID', 'x')}-{os.getppid()}")
    os.makedirs(folder, exist_ok=True)
    model = AutoEncoder()
    trainer = L.Trainer(
        accelerator="cpu",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        strategy="ddp",
        max_epochs=2,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(data(3072, 1), batch_size=16, shuffle=True), DataLoader(data(512, 2), batch_size=32))
    finalize(trainer, folder)
    for seed in (3, 4, 5):
        trainer.test(model, DataLoader(data(512, seed), batch_size=32), verbose=False)
        if trainer.is_global_zero:
            print("test set", seed, dict(trainer.callback_metrics), flush=True)


if __name__ == "__main__":
    main()
