import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torchmetrics.classification import MulticlassAccuracy


class Hands(torch.utils.data.Dataset):
    """Tracks of finger joints for signs of a sign language."""

    def __init__(self, blocks=64, batch=48, frames=40, joints=42, signs=12):
        g = torch.Generator().manual_seed(0)
        self.y = torch.randint(0, signs, (blocks, batch), generator=g)
        self.x = torch.randn(blocks, batch, joints, frames, generator=g)
        self.x[:, :, 0] += self.y.unsqueeze(2) / 4

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Signer(L.LightningModule):
    def __init__(self, joints=42, width=160, signs=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(joints, width, 5, padding=2), nn.ReLU(), nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
        )
        self.out = nn.Linear(width, signs)
        self.right = MulticlassAccuracy(signs, average="micro", validate_args=False)

    def training_step(self, batch, index):
        x, y = batch
        score = self.out(self.net(x).mean(2))
        self.right.update(score.detach(), y)
        return F.cross_entropy(score, y)

    def on_train_epoch_end(self):
        self.log("right", self.right.compute())
        self.right.reset()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
