import torch
from torch import nn
from torch.nn import functional as F


class Look(nn.Module):
    """How different two pictures look to a network that is itself not trained."""

    def __init__(self, width=24):
        super().__init__()
        self.eye = nn.Sequential(nn.Conv2d(1, width, 5, 2, 2), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU())
        self.requires_grad_(False).eval()

    def forward(self, made, sharp):
        with torch.no_grad():
            wanted = self.eye(sharp)
        return F.l1_loss(self.eye(made), wanted)
