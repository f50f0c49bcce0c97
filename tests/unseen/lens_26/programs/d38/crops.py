import lightning as L
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Crops(L.LightningModule):
    """Bands of light over a season -> what grows on the field."""

    def __init__(self, bands=13, weeks=30, width=1024, kinds=18):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(bands * weeks, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, kinds),
        )

    def training_step(self, batch, index):
        light, kind = batch
        loss = F.cross_entropy(self.net(light), kind)
        self.last = loss.detach()
        return loss

    def on_after_backward(self):
        """All ranks take the same step."""
        grads = [parameter.grad for parameter in self.parameters()]
        flat = torch.cat([grad.flatten() for grad in grads])
        dist.all_reduce(flat)  #: LINE
        flat.div_(self.trainer.world_size)
        for grad, mean in zip(grads, flat.split([grad.numel() for grad in grads])):
            grad.copy_(mean.view_as(grad))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


def fields(rank, world, batch=128, count=20000, bands=13, weeks=30, kinds=18):
    made = torch.Generator().manual_seed(6)
    kind = torch.randint(0, kinds, (count,), generator=made)
    light = torch.randn(kinds, bands, weeks, generator=made)[kind] + 2 * torch.randn(count, bands, weeks, generator=made)
    light, kind = light[rank::world], kind[rank::world]
    cut = len(kind) // batch * batch
    return DataLoader(TensorDataset(light[:cut].reshape(-1, batch, bands, weeks), kind[:cut].reshape(-1, batch)), batch_size=None)
