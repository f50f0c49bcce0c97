import tempfile
import time

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Meshes(Dataset):
    """A few meshes are a hundred times finer than the rest; which process gets one is chance."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        faces = 40 if torch.rand((), generator=g) > 0.04 else 4000
        time.sleep(faces * 1e-4)
        pts = torch.randn(faces, 3, generator=g)
        return torch.cat([pts.mean(0), pts.std(0)]), pts.norm(dim=1).mean()


class Volume(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def training_step(self, batch, i):
        x, y = batch
        return nn.functional.l1_loss(self.net(x).squeeze(1), y)

    def on_train_epoch_end(self):
        if self.trainer.is_global_zero:
            print(f"epoch {self.current_epoch} done, step {self.global_step}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    pl.seed_everything(3, verbose=False)
    loader = DataLoader(Meshes(1440), batch_size=6, shuffle=True, num_workers=1, persistent_workers=False)
    trainer = pl.Trainer(accelerator="cpu", devices=3, strategy="ddp", max_epochs=5, logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False, default_root_dir=tempfile.mkdtemp())
    trainer.fit(Volume(), loader)
