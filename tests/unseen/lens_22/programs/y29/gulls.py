import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler
import lightning as L


class Calls(Dataset):
    """Calls of gulls as 40 bands by 32 frames, and the kind. Takes a list of places, gives a batch."""

    def __init__(self, count=4000, kinds=10):
        self.kind = torch.randint(0, kinds, (count,))
        self.calls = torch.randn(kinds, 40, 32)[self.kind] + 2 * torch.randn(count, 40, 32)

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, picked):
        return self.calls[picked], self.kind[picked]


class Gulls(L.LightningModule):
    def __init__(self, width=96, kinds=10):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(40, width, 3, padding=1), nn.ReLU(), nn.Conv1d(width, 2 * width, 3, padding=1), nn.ReLU(),
            nn.Conv1d(2 * width, 2 * width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
            nn.Linear(2 * width, kinds),
        )

    def training_step(self, batch, index):
        calls, kind = batch
        scores = self.net(calls)
        loss = F.cross_entropy(scores, kind)
        self.last = loss.detach()
        right = (scores.argmax(1) == kind).float().mean()
        self.log("train/loss", self.last)
        self.log("train/right", right, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def train_dataloader(self):
        torch.manual_seed(4)
        calls = Calls()
        ranks = DistributedSampler(calls, self.trainer.world_size, self.trainer.global_rank)
        return DataLoader(calls, batch_size=None, sampler=BatchSampler(ranks, 64, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)
