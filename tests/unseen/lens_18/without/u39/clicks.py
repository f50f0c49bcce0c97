import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torchmetrics.classification import BinaryAUROC


class Clicks:
    """Log of shown advertisements, read in blocks."""

    def __init__(self, blocks=64, batch=4096, fields=10, values=3000):
        g = torch.Generator().manual_seed(0)
        self.ids = torch.randint(0, values, (blocks, batch, fields), generator=g)
        self.y = (torch.rand(blocks, batch, generator=g) < 0.2 + 0.4 * (self.ids[:, :, 0] % 2)).float()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.ids[index], self.y[index]


class Clicker(L.LightningModule):
    def __init__(self, fields=10, values=3000, size=16, width=320):
        super().__init__()
        self.table = nn.Embedding(values, size)
        self.net = nn.Sequential(
            nn.Linear(fields * size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1),
        )
        self.auc = BinaryAUROC(validate_args=False)

    def training_step(self, batch, index):
        ids, y = batch
        score = self.net(self.table(ids).flatten(1)).squeeze(1)
        self.auc.update(score.detach(), y.long())
        return F.binary_cross_entropy_with_logits(score, y)

    def on_train_epoch_end(self):
        self.log("auc", self.auc.compute(), prog_bar=True)
        self.auc.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)
