import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Coupling(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(size // 2, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, size),
        )

    def forward(self, x):
        a, b = x.chunk(2, 1)
        scale, shift = self.net(a).chunk(2, 1)
        scale = torch.tanh(scale)
        return torch.cat([b * scale.exp() + shift, a], 1), scale.sum(1)


class Flow(L.LightningModule):
    """Density of the readings of a detector, by coupled layers."""

    def __init__(self, size=32, width=320, layers=6):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(size, width) for _ in range(layers))

    def training_step(self, batch, index):
        x, logdet = batch[0], 0.0
        for layer in self.layers:
            x, more = layer(x)
            logdet = logdet + more
        return (0.5 * x.square().sum(1) - logdet).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-4, fused=True)


def readings(batch, count=64 * 1280, size=32):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(count, size, generator=g) @ torch.randn(size, size, generator=g) / size**0.5
    return DataLoader(TensorDataset(x), sampler=Whole(count, batch), batch_size=None)


class Whole(torch.utils.data.Sampler):
    """Hands out whole batches of indices, so that the tensors are read at once."""

    def __init__(self, count, batch):
        self.count, self.batch = count, batch

    def __iter__(self):
        return iter(torch.randperm(self.count).split(self.batch))

    def __len__(self):
        return -(-self.count // self.batch)
