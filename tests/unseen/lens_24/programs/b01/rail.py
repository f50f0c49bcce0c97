import lightning as L
import psutil
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler


class Rides(Dataset):
    """Shaking of a train over two seconds in three directions; how worn is the rail? Lists of places give batches."""

    def __init__(self, count=8000, ticks=160):
        self.wear = torch.rand(count)
        clock = torch.arange(ticks) / 5
        self.shaking = self.wear[:, None, None] * (clock + 6 * torch.rand(count, 3, 1)).sin() + 0.5 * torch.randn(count, 3, ticks)

    def __len__(self):
        return len(self.wear)

    def __getitem__(self, places):
        return self.shaking[places], self.wear[places]


class Wear(L.LightningModule):
    def __init__(self, frame=16, width=192):
        super().__init__()
        self.frame = frame
        self.enter = nn.Linear(3 * frame, width)
        self.past = nn.GRU(width, width, batch_first=True)
        self.wear = nn.Linear(width, 1)

    def training_step(self, batch, index):
        shaking, wear = batch
        frames = shaking.unflatten(2, (-1, self.frame)).transpose(1, 2).flatten(2)
        loss = F.mse_loss(self.wear(self.past(self.enter(frames))[0][:, -1]).squeeze(1), wear)
        self.last = loss.detach()
        return loss

    def train_dataloader(self):
        torch.manual_seed(7)
        rides = Rides()
        share = DistributedSampler(rides, self.trainer.world_size, self.trainer.global_rank)
        return DataLoader(rides, batch_size=None, sampler=BatchSampler(share, 64, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


class Resources(L.Callback):
    """Memory and processor time of this rank, after each batch."""

    def __init__(self):
        self.process, self.rows = psutil.Process(), []

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        memory, used = self.process.memory_info(), self.process.cpu_times()
        self.rows.append((trainer.global_step, memory.rss, used.user, used.system))
