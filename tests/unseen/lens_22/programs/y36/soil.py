import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler
import lightning as L

STUFFS = ("sand", "silt", "clay", "lime", "iron", "salt", "water", "humus", "potash", "nitrogen", "zinc", "copper")


class Samples(Dataset):
    """Light thrown back by samples of soil, and what is in them. Takes a list of places, gives a batch."""

    def __init__(self, count=40000, colours=160):
        self.parts = torch.rand(count, len(STUFFS))
        self.light = (self.parts @ torch.randn(len(STUFFS), colours)).tanh() + 0.05 * torch.randn(count, colours)

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, picked):
        return self.light[picked], self.parts[picked]


class Soil(L.LightningModule):
    def __init__(self, colours=160, width=320):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(colours, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, len(STUFFS)),
        )

    def training_step(self, batch, index):
        light, parts = batch
        guess = self.net(light)
        loss = F.smooth_l1_loss(guess, parts, beta=0.1)
        self.note(loss, guess.detach(), parts)
        return loss

    def note(self, loss, guess, parts):
        """How far we are off, stuff by stuff."""
        self.last = loss.detach()
        for name, off in zip(STUFFS, (guess - parts).abs().mean(0)):
            self.log(f"train/off_{name}", off, sync_dist=True)  #: LINE

    def train_dataloader(self):
        torch.manual_seed(2)
        samples = Samples()
        ranks = DistributedSampler(samples, self.trainer.world_size, self.trainer.global_rank)
        return DataLoader(samples, batch_size=None, sampler=BatchSampler(ranks, 640, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
