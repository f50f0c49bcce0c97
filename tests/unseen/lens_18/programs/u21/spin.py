import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Careful(L.Callback):
    """Stops a run whose loss is no number any more."""

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        if not torch.isfinite(outputs["loss"]):
            raise RuntimeError(f"loss is not finite in step {trainer.global_step}")


class Lattice(L.LightningModule):
    """Energy of spins on a lattice."""

    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.SiLU(),
            nn.Conv2d(width, 1, 1),
        )

    def training_step(self, batch, index):
        spins, energy = batch
        return F.mse_loss(self.net(spins).mean((1, 2, 3)), energy)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def lattices(batch, count=3200, side=16):
    g = torch.Generator().manual_seed(0)
    s = torch.randint(0, 2, (count, 1, side, side), generator=g).float() * 2 - 1
    energy = -(s * s.roll(1, 2) + s * s.roll(1, 3)).mean((1, 2, 3))
    return DataLoader(TensorDataset(s, energy), batch, shuffle=True, drop_last=True)
