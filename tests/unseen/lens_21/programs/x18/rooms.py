import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Rooms(L.LightningModule):
    """An autoencoder for the echoes of rooms. The parts of its loss are kept as means of the epoch over all ranks."""

    def __init__(self, length=512, width=320, code=24, batch=384):
        super().__init__()
        self.batch, self.length = batch, length
        self.encode = nn.Sequential(nn.Linear(length, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
                                    nn.Linear(width, 2 * code))
        self.decode = nn.Sequential(nn.Linear(code, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
                                    nn.Linear(width, length))

    def training_step(self, batch, index):
        (echo,) = batch
        middle, spread = self.encode(echo).chunk(2, 1)
        code = middle + torch.randn_like(middle) * (0.5 * spread).exp()
        parts = {
            "echo": F.mse_loss(self.decode(code), echo),
            "prior": 1e-3 * (middle.square() + spread.exp() - spread - 1).mean(),
            "late": 1e-2 * middle.abs().mean(),
        }
        self.last = sum(parts.values())
        for name, value in parts.items():
            self.log(f"train/{name}", value, on_step=False, on_epoch=True, sync_dist=True)
        return self.last

    def train_dataloader(self):
        torch.manual_seed(11)
        fade = torch.exp(-torch.arange(self.length) / torch.randint(20, 200, (24 * self.batch, 1)))
        echoes = TensorDataset(fade * torch.randn_like(fade))
        part = DistributedSampler(echoes, self.trainer.world_size, self.trainer.global_rank)
        return DataLoader(echoes, self.batch, sampler=part, drop_last=True, collate_fn=gather)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def gather(examples):
    return (torch.stack([echo for (echo,) in examples]),)
