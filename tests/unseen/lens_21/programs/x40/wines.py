import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def loader(batch, count=24000, features=64, regions=14):
    """What was measured of a wine, and where it grew."""
    region = torch.randint(0, regions, (count,))
    measured = torch.randn(regions, features)[region] + 1.5 * torch.randn(count, features)
    return DataLoader(TensorDataset(measured, region), batch, shuffle=True, drop_last=True)


def network(features=64, width=448, regions=14):
    return nn.Sequential(
        nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, regions),
    )
