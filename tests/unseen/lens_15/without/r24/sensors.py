import torch
from torch.utils.data import DataLoader, TensorDataset


def loader(batch_size=256, rows=36000, features=96, tasks=6):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(rows, features, generator=g)
    mix = torch.randn(features, tasks, generator=g) / features**0.5
    y = torch.tanh(x @ mix) + 0.1 * torch.randn(rows, tasks, generator=g)
    return DataLoader(TensorDataset(x, y), batch_size, shuffle=True, drop_last=True)
