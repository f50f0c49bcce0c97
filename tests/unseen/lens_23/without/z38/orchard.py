import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler
import lightning as L


class Leaves(Dataset):
    """Small pictures of leaves, the kind of the tree and how ill the leaf is. Takes places, gives a batch."""

    def __init__(self, count=3000, kinds=8):
        self.kind = torch.randint(0, kinds, (count,))
        self.ill = torch.rand(count)
        self.pictures = torch.randn(kinds, 3, 24, 24)[self.kind] + self.ill[:, None, None, None] + torch.randn(count, 3, 24, 24)

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, picked):
        return self.pictures[picked], self.kind[picked], self.ill[picked]


class Orchard(L.LightningModule):
    def __init__(self, width=32, kinds=8):
        super().__init__()
        self.automatic_optimization = False
        self.eye = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU(), nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.kind = nn.Sequential(nn.Linear(4 * width, 64), nn.ReLU(), nn.Linear(64, kinds))
        self.ill = nn.Sequential(nn.Linear(4 * width, 64), nn.ReLU(), nn.Linear(64, 1))

    def training_step(self, batch, index):
        pictures, kind, ill = batch
        seen = self.eye(pictures)
        loss_kind = F.cross_entropy(self.kind(seen), kind)
        loss_ill = 2 * F.smooth_l1_loss(self.ill(seen).squeeze(1), ill)
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss_kind + loss_ill)
        optimizer.step()
        self.last = loss_kind.detach() + loss_ill.detach()

    def train_dataloader(self):
        leaves = Leaves()
        return DataLoader(leaves, batch_size=None, sampler=BatchSampler(RandomSampler(leaves), 24, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
