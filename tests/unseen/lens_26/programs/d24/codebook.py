import lightning as L
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Hums(L.LightningModule):
    """Spectra of machines through 64 words. The words follow the mean of what falls to them, on all ranks."""

    def __init__(self, bins=256, width=640, code=32, words=64):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(bins, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, code))
        self.up = nn.Sequential(nn.Linear(code, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, bins))
        self.register_buffer("words", torch.randn(words, code))
        self.register_buffer("often", torch.ones(words))

    def training_step(self, batch, index):
        spectrum = batch[0]
        code = self.down(spectrum)
        with torch.no_grad():
            self.nearest = torch.cdist(code, self.words).argmin(1)
            self.code = code.detach()
        word = self.words[self.nearest]
        loss = F.mse_loss(self.up(code + (word - code).detach()), spectrum) + 0.25 * F.mse_loss(code, word)
        self.last = loss.detach()
        return loss

    @torch.no_grad()
    def on_after_backward(self):
        """Sums and counts of this batch over all ranks, in one message."""
        seen = torch.zeros(len(self.words), self.words.shape[1] + 1)
        seen[:, :-1].index_add_(0, self.nearest, self.code)
        seen[:, -1] = torch.bincount(self.nearest, minlength=len(self.words))
        dist.all_reduce(seen)
        count = seen[:, -1]
        moved = seen[:, :-1] / count.clamp(min=1)[:, None]
        self.words.lerp_(torch.where(count[:, None] > 0, moved, self.words), 0.05)
        self.often.lerp_(count, 0.05)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-4, fused=True)


def listen(rank, world, batch=512, count=40960, bins=256):
    made = torch.Generator().manual_seed(12)
    spectrum = (torch.randn(40, bins, generator=made)[torch.randint(0, 40, (count,), generator=made)]).cumsum(1) / 8
    return DataLoader(TensorDataset(spectrum[rank::world].reshape(-1, batch, bins)), batch_size=None)
