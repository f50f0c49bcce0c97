import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Ranker(L.LightningModule):
    def __init__(self, features=80, width=512):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(),
            nn.LayerNorm(width), nn.Linear(width, width // 2), nn.GELU(), nn.Linear(width // 2, 1),
        )

    def training_step(self, batch, index):
        lists, relevance = batch
        scores = self.net(lists).squeeze(-1)
        loss = -(relevance.softmax(1) * scores.log_softmax(1)).sum(1).mean()
        with torch.no_grad():
            first = relevance.gather(1, scores.argmax(1, keepdim=True)).mean()
        self.log_dict({"loss": loss, "first": first})
        return loss

    def on_train_end(self):
        board = self.logger.experiment
        for name, p in self.named_parameters():
            board.add_histogram(f"weights/{name}", p, self.global_step)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4)


def loader(batch_size=80, lists=6400, length=16, features=80):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(lists, length, features, generator=g)
    return DataLoader(TensorDataset(x, x[..., :5].sum(-1)), batch_size, shuffle=True, drop_last=True)
