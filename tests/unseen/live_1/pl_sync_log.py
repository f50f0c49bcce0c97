"""Lightning module that logs a confusion measure for the difficult batches."""
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def blobs(n=480, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=g)
    x = torch.randn(n, 6, generator=g) + y[:, None]
    return TensorDataset(x, y)


class Blob(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))

    def training_step(self, batch, idx):
        x, y = batch
        out = self.net(x)
        loss = nn.functional.cross_entropy(out, y)
        self.log("loss", loss)
        if idx % 5 == 0:
            print(f"[{self.global_rank}] epoch {self.current_epoch} batch {idx}", flush=True)
        return loss

    def validation_step(self, batch, idx):
        x, y = batch
        pred = self.net(x).argmax(-1)
        acc = (pred == y).float().mean()
        if self.current_epoch >= 1 and (y == 2).float().mean() > 0.55:
            self.log("hard_acc", acc, sync_dist=True, on_step=True, on_epoch=False)  #: LINE
        return acc

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)


class Skewed(torch.utils.data.Dataset):
    """validation rows; the tail has mostly the third class"""

    def __init__(self, n=64):
        g = torch.Generator().manual_seed(5)
        self.y = torch.randint(0, 2, (n,), generator=g)
        self.y[33::2] = 2
        self.x = torch.randn(n, 6, generator=g) + self.y[:, None]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def main():
    L.seed_everything(1)
    trainer = L.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=4, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
    )
    trainer.fit(Blob(), DataLoader(blobs(), batch_size=16), DataLoader(Skewed(), batch_size=8))
    print("fit is over on rank", trainer.global_rank)


if __name__ == "__main__":
    main()
