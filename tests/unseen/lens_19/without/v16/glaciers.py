import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Glaciers(L.LightningModule):
    """Parts of a picture that are ice."""

    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(4, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, 1, 1),
        )

    def training_step(self, batch, index):
        return F.binary_cross_entropy_with_logits(self.net(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.log("loss", F.binary_cross_entropy_with_logits(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


class Whole(torch.utils.data.Sampler):
    """Hands out whole batches of indices, so that the tensors are read at once."""

    def __init__(self, count, batch):
        self.count, self.batch = count, batch

    def __iter__(self):
        return iter(torch.randperm(self.count).split(self.batch))

    def __len__(self):
        return -(-self.count // self.batch)


def pictures(count, batch, seed):
    x = torch.randn(count, 4, 32, 32, generator=torch.Generator().manual_seed(seed))
    data = TensorDataset(x, (x.mean(1, keepdim=True) > 0).float())
    return DataLoader(data, sampler=Whole(count, batch), batch_size=None)
