import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler
import lightning as L


class Gauge(Dataset):
    """Four days of heights at a harbour, and the next six hours. Takes a list of begins, gives a batch."""

    def __init__(self, hours=9000, past=96, ahead=6):
        clock = torch.arange(hours + past + ahead)
        heights = (clock / 1.98).sin() + 0.3 * (clock / 3.8).cos() + 0.05 * torch.randn(len(clock))
        self.windows = heights.unfold(0, past + ahead, 1)
        self.past = past

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, picked):
        windows = self.windows[picked]
        return windows[:, : self.past], windows[:, self.past:]


def loader(batch):
    gauge = Gauge()
    return DataLoader(gauge, batch_size=None, sampler=BatchSampler(RandomSampler(gauge), batch, drop_last=True))


class Tide(L.LightningModule):
    def __init__(self, width=72, ahead=6):
        super().__init__()
        layers, channels = [], 1
        for stretch in (1, 2, 4, 8):
            layers += [nn.Conv1d(channels, width, 3, 1, stretch, stretch), nn.GELU()]
            channels = width
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(8), nn.Flatten(), nn.Linear(8 * width, ahead))

    def training_step(self, batch, index):
        past, ahead = batch
        self.last = F.mse_loss(self.net(past.unsqueeze(1)), ahead)
        return self.last

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3, fused=True)
