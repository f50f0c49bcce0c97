import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler

ASKED = ("sugar", "acid", "water", "starch", "colour", "firmness", "bruises", "age")


class Apples(Dataset):
    """Light that an apple throws back, and what the laboratory found. Takes a list of places, gives a batch."""

    def __init__(self, count=50000, bands=160):
        self.found = torch.rand(count, len(ASKED))
        self.light = self.found @ torch.randn(len(ASKED), bands) + 0.2 * torch.randn(count, bands)

    def __len__(self):
        return len(self.found)

    def __getitem__(self, picked):
        return self.light[picked], self.found[picked]


class Orchard(L.LightningModule):
    def __init__(self, bands=160, width=320):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(bands, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
                                  nn.Linear(width, width), nn.GELU())
        self.heads = nn.Linear(width, len(ASKED))

    def training_step(self, batch, index):
        light, found = batch
        errors = (self.heads(self.body(light)) - found).square().mean(0)
        self.last = errors.mean()
        parts = {f"train/{name}": error for name, error in zip(ASKED, errors.detach())}
        self.log_dict({"train/loss": self.last, **parts}, sync_dist=True)  #: LINE
        return self.last

    def train_dataloader(self):
        torch.manual_seed(5)
        apples = Apples()
        ranks = DistributedSampler(apples, self.trainer.world_size, self.trainer.global_rank)
        return DataLoader(apples, batch_size=None, sampler=BatchSampler(ranks, 800, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
