import lightning as L
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset


class Runs(IterableDataset):
    """Shakes of skis on the way down, cut from long recordings, and the kind of snow. Gives whole batches."""

    def __init__(self, batch=32, length=1024, kinds=5, seed=7):
        self.random = np.random.default_rng(seed)
        self.recordings = [
            (self.random.standard_normal(200_000) * (1 + kind) / 3).astype(np.float32) for kind in range(kinds)
        ]
        self.batch, self.length = batch, length

    def __iter__(self):
        while True:
            cuts, snow = [], []
            for kind in self.random.integers(0, len(self.recordings), self.batch).tolist():
                start = int(self.random.integers(0, 200_000 - self.length))
                cuts.append(self.recordings[kind][start:start + self.length])
                snow.append(kind)
            yield torch.tensor(np.array(cuts)), torch.tensor(snow)


class SnowModel(L.LightningModule):
    def __init__(self, width=64, kinds=5):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 16, 4, 6), nn.ReLU(), nn.Conv1d(width, 2 * width, 8, 4, 2), nn.ReLU(),
            nn.Conv1d(2 * width, 2 * width, 5, 1, 2), nn.ReLU(), nn.Conv1d(2 * width, 2 * width, 5, 1, 2), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2 * width, kinds),
        )

    def training_step(self, batch, index):
        cuts, snow = batch
        loss = F.cross_entropy(self.net(cuts.unsqueeze(1)), snow)
        self.last = loss.detach()
        return loss

    def train_dataloader(self):
        return DataLoader(Runs(), batch_size=None)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
