import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self, features=96, width=512, out=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out)
        )

    def forward(self, a, b):
        return F.normalize(self.net(a), dim=1), F.normalize(self.net(b), dim=1)


class Scale(nn.Module):
    """The temperature is learned too; it is outside of the wrapped net, as the loss is."""

    def __init__(self):
        super().__init__()
        self.log = nn.Parameter(torch.tensor(2.3))

    def forward(self, a, b):
        logits = self.log.exp() * a @ b.t()
        rows = torch.arange(len(a))
        return 0.5 * (F.cross_entropy(logits, rows) + F.cross_entropy(logits.t(), rows))
