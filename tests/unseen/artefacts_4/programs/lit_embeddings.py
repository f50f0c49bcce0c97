"""Contrastive embeddings with Lightning; the main process clusters them after each epoch."""
import os

import flightdump  # noqa: F401
import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.utilities import rank_zero_only
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROUNDS = int(os.environ.get("KMEANS_ROUNDS", "40"))


def points(n=6000):
    g = torch.Generator().manual_seed(2)
    return torch.randn(n, 64, generator=g)


class Embedder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 48))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        a = F.normalize(self.net(x + 0.1 * torch.randn_like(x)), dim=1)
        b = F.normalize(self.net(x + 0.1 * torch.randn_like(x)), dim=1)
        logits = a @ b.T / 0.2
        return F.cross_entropy(logits, torch.arange(len(x)))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)

    def on_train_epoch_end(self):
        self.report_clusters()

    @rank_zero_only
    def report_clusters(self, k=200):
        with torch.no_grad():
            z = F.normalize(self.net(points()), dim=1)
        centres = z[torch.randperm(len(z))[:k]]
        for _ in range(ROUNDS):
            owner = torch.cdist(z, centres).argmin(1)
            for c in range(k):
                members = z[owner == c]
                if len(members):
                    centres[c] = members.mean(0)
        spread = torch.cdist(z, centres).min(1).values.mean()
        print(f"epoch {self.current_epoch}: mean distance to centre {spread:.4f}", flush=True)


def main():
    L.seed_everything(3)
    loader = DataLoader(TensorDataset(points(3000)), batch_size=100, shuffle=True)
    trainer = L.Trainer(accelerator="cpu", strategy="ddp",
                        devices=int(os.environ["LOCAL_WORLD_SIZE"]), max_epochs=2,
                        logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Embedder(), loader)


if __name__ == "__main__":
    main()
