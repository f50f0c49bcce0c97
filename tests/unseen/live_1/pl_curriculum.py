"""Lightning with a curriculum callback: raises the difficulty when the local loss is low."""
import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch.utils.data import DataLoader, Dataset


class Sums(Dataset):
    def __init__(self, n=384):
        self.n = n
        self.level = 1

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        x = torch.rand(8, generator=g) * self.level
        return x, x.sum(0, keepdim=True)


class Reg(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.lin(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 5e-3)


class Curriculum(Callback):
    def __init__(self, data, low):
        self.data = data
        self.low = low

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        loss = outputs["loss"].item()
        if trainer.global_rank == 0 and batch_idx % 8 == 0:
            print(f"epoch {trainer.current_epoch} batch {batch_idx} loss {loss:.3f}", flush=True)
        if loss < self.low[trainer.global_rank] and trainer.global_step > 20:
            self.raise_level(trainer)

    def raise_level(self, trainer):
        self.data.level += 1
        self.low = {k: v / 2 for k, v in self.low.items()}
        trainer.strategy.barrier("level")  #: LINE
        print(f"rank {trainer.global_rank}: level {self.data.level}", flush=True)


def main():
    pl.seed_everything(0, workers=True)
    data = Sums()
    low = {0: 0.0, 1: 1e9, 2: 0.0}
    trainer = pl.Trainer(
        accelerator="cpu", devices=3, strategy="ddp", max_epochs=3, logger=False, enable_model_summary=False,
        enable_checkpointing=False, enable_progress_bar=False, callbacks=[Curriculum(data, low)],
    )
    trainer.fit(Reg(), DataLoader(data, batch_size=8))


if __name__ == "__main__":
    main()
