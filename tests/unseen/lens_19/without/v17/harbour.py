import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

AIMS = ("arrival", "berth", "unload", "load", "customs", "pilot", "fuel", "leave")


class Harbour(L.LightningModule):
    """Hours that a ship needs for each part of its stay."""

    def __init__(self, columns=64, width=448):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(columns, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, len(AIMS)),
        )

    def training_step(self, batch, index):
        ships, hours = batch
        losses = F.smooth_l1_loss(self.net(ships), hours, reduction="none").mean(0)
        loss = losses.mean()
        if index % 20 == 19:
            self.show({name: value for name, value in zip(AIMS, losses.detach())} | {"loss": loss.detach()})
        return loss

    def show(self, numbers):
        for name, value in numbers.items():
            self.log(f"train/{name}", value, on_step=True, on_epoch=False, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


class Whole(torch.utils.data.Sampler):
    """Hands out whole batches of indices, so that the tensors are read at once."""

    def __init__(self, count, batch, rank, world):
        self.count, self.batch, self.rank, self.world = count, batch, rank, world

    def __iter__(self):
        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(0))
        return iter(order[self.rank :: self.world].split(self.batch))

    def __len__(self):
        return -(-self.count // (self.batch * self.world))


def stays(batch, rank, world, steps=60):
    count = steps * batch * world
    x = torch.randn(count, 64, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(x, x[:, :8].exp() + x[:, 8:16].abs())
    return DataLoader(data, sampler=Whole(count, batch, rank, world), batch_size=None)
