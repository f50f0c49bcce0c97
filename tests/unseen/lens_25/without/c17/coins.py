import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler


class Coins(Dataset):
    """Sounds of coins that fall, as bands, and which coin it was. Takes a list of places, gives a batch."""

    def __init__(self, count=24000, bands=96, kinds=12):
        self.kind = torch.randint(0, kinds, (count,))
        self.bands = torch.randn(kinds, bands)[self.kind] + 1.5 * torch.randn(count, bands)

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, picked):
        return self.bands[picked], self.kind[picked]


class Histograms(L.Callback):
    """Shows in TensorBoard how weights and gradients spread."""

    @rank_zero_only
    def on_before_optimizer_step(self, trainer, module, optimizer):
        if trainer.global_step % trainer.log_every_n_steps:
            return
        board = trainer.logger.experiment
        for name, weight in module.named_parameters():
            board.add_histogram(f"weights/{name}", weight, trainer.global_step)
            board.add_histogram(f"gradients/{name}", weight.grad, trainer.global_step)


class CoinModel(L.LightningModule):
    def __init__(self, bands=96, width=208, kinds=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(bands, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, kinds)
        )

    def training_step(self, batch, index):
        bands, kind = batch
        loss = F.cross_entropy(self.net(bands), kind)
        self.last = loss.detach()
        self.log("train/loss", self.last)
        return loss

    def train_dataloader(self):
        torch.manual_seed(8)
        coins = Coins()
        ranks = DistributedSampler(coins, self.trainer.world_size, self.trainer.global_rank)
        return DataLoader(coins, batch_size=None, sampler=BatchSampler(ranks, 2400, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
