import tempfile

import lightning.pytorch as pl
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Positions(Dataset):
    def __init__(self, n=24000):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        board = torch.randint(0, 13, (64,), generator=g)
        return board, torch.tanh((board.float() - 6).mean())


class Evaluator(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.piece = nn.Embedding(13, 16)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, board):
        return self.net(self.piece(board)).squeeze(1)

    def training_step(self, batch, batch_idx):
        board, value = batch
        return nn.functional.mse_loss(self(board), value)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Plateau(pl.Callback):
    """Ends the fit when the smoothed loss does not get better any more."""

    def __init__(self, patience):
        self.patience, self.best, self.since, self.smooth = patience, 1e9, 0, None

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        loss = outputs["loss"].item()
        self.smooth = loss if self.smooth is None else 0.9 * self.smooth + 0.1 * loss
        if self.smooth < self.best:
            self.best, self.since = self.smooth, 0
        else:
            self.since += 1
        if self.since > self.patience:
            print(f"rank {trainer.global_rank} stops at {trainer.global_step}, loss {self.smooth:.5f}", flush=True)
            trainer.should_stop = True  #: LINE


def main():
    pl.seed_everything(4, verbose=False)
    trainer = pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, callbacks=[Plateau(patience=60)], logger=False,
                         enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=tempfile.mkdtemp())
    trainer.fit(Evaluator(), DataLoader(Positions(), batch_size=8))
    print(f"rank {trainer.global_rank} done after {trainer.global_step} steps", flush=True)
    trainer.strategy.barrier()


if __name__ == "__main__":
    main()
