import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler


class Fleeces(Dataset):
    """Fibres of a fleece under the microscope, measured, and the breed. A list of places gives a batch."""

    def __init__(self, count=30000, measures=120, breeds=15):
        self.breed = torch.randint(breeds, (count,))
        self.fibres = torch.randn(breeds, measures)[self.breed] + 4 * torch.randn(count, measures)

    def __len__(self):
        return len(self.breed)

    def __getitem__(self, places):
        return self.fibres[places], self.breed[places]


class Breeds(L.LightningModule):
    def __init__(self, measures=120, width=384, breeds=15):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(measures, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, breeds),
        )

    def training_step(self, batch, index):
        fibres, breed = batch
        loss = F.cross_entropy(self.net(fibres), breed)
        self.last = loss.detach()
        return loss

    def train_dataloader(self):
        torch.manual_seed(1)
        fleeces = Fleeces()
        share = DistributedSampler(fleeces, self.trainer.world_size, self.trainer.global_rank)
        return DataLoader(fleeces, batch_size=None, sampler=BatchSampler(share, 704, drop_last=True))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
