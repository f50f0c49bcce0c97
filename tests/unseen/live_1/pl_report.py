"""Lightning: a report is written by the first rank between validation and the next epoch."""
import time

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities import rank_zero_only
from torch.utils.data import DataLoader, TensorDataset


class Report(Callback):
    def on_validation_epoch_end(self, trainer, module):
        value = trainer.callback_metrics.get("val_loss")
        self.write(trainer.current_epoch, value)
        trainer.strategy.barrier()

    @rank_zero_only
    def write(self, epoch, value):
        for part in ("tables", "figures", "summary"):
            time.sleep(1.7)
            print(f"epoch {epoch}: {part} written ({value})", flush=True)


class Ridge(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Linear(9, 1)

    def training_step(self, batch, i):
        x, y = batch
        return (self.w(x) - y).pow(2).mean() + 1e-3 * self.w.weight.pow(2).sum()

    def validation_step(self, batch, i):
        x, y = batch
        self.log("val_loss", (self.w(x) - y).pow(2).mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05)


def table(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 9, generator=g)
    return TensorDataset(x, x[:, :1] - x[:, 1:2])


def main():
    L.seed_everything(0)
    trainer = L.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=3, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[Report()], num_sanity_val_steps=0,
    )
    trainer.fit(Ridge(), DataLoader(table(300, 0), batch_size=10), DataLoader(table(61, 1), batch_size=10))


if __name__ == "__main__":
    main()
