from datetime import timedelta

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class SensorLog(Dataset):
    """Readings of a flaky sensor: a few of them are NaN."""

    BROKEN = {45}

    def __init__(self, n=72):
        g = torch.Generator().manual_seed(13)
        self.x = torch.randn(n, 5, generator=g)
        self.y = self.x.sum(dim=1, keepdim=True)
        for i in self.BROKEN:
            self.x[i, 2] = float("nan")

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Regressor(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(5, 10), torch.nn.ReLU(), torch.nn.Linear(10, 1)
        )
        self.skipped = 0

    def training_step(self, batch, batch_idx):
        x, y = batch
        ok = torch.isfinite(x).all(dim=1)
        if not ok.all():
            self.skipped += 1
            x = torch.nan_to_num(x)
        pred = self.net(x)
        weight = ok.float().unsqueeze(1)
        return (F.mse_loss(pred, y, reduction="none") * weight).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


class CountSkipped(Callback):
    def on_train_epoch_end(self, trainer, module):
        total = module.all_gather(torch.tensor(module.skipped)).sum()
        if trainer.is_global_zero:
            print(f"epoch {trainer.current_epoch}: skipped so far {int(total)}")


def main():
    pl.seed_everything(1, verbose=False)
    data = SensorLog()
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        max_epochs=2,
        strategy=DDPStrategy(process_group_backend="gloo", timeout=timedelta(seconds=20)),
        callbacks=[CountSkipped()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Regressor(), DataLoader(data, batch_size=4, shuffle=False))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
