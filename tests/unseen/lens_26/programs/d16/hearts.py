import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler


class Beats(Dataset):
    """Heart beats in two leads, and whether the rhythm is sound. Takes a list of places, gives a batch."""

    def __init__(self, count=6000, length=64):
        self.sound = torch.randint(0, 2, (count,))
        clock = torch.arange(length) * (0.2 + 0.1 * self.sound.unsqueeze(1))
        self.lead = torch.stack([clock.sin(), clock.cos()], 1) + 0.5 * torch.randn(count, 2, length)

    def __len__(self):
        return len(self.sound)

    def __getitem__(self, picked):
        return self.lead[picked], self.sound[picked]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one = nn.Conv1d(width, width, 3, padding=1)
        self.two = nn.Conv1d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        y = self.two(F.silu(self.one(self.norm(x))))
        return x + y * self.gate(y.mean(2)).sigmoid().unsqueeze(2)


class Heart(L.LightningModule):
    def __init__(self, width=48, depth=6):
        super().__init__()
        self.first = nn.Conv1d(2, width, 5, padding=2)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.last = nn.Linear(width, 2)

    def training_step(self, batch, index):
        lead, sound = batch
        loss = F.cross_entropy(self.last(self.blocks(self.first(lead)).mean(2)), sound)
        self.latest = loss.detach()
        return loss

    def train_dataloader(self):
        torch.manual_seed(6)
        beats = Beats()
        ranks = DistributedSampler(beats, self.trainer.world_size, self.trainer.global_rank)
        return DataLoader(beats, batch_size=None, sampler=BatchSampler(ranks, 12, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
