import torch
from torch import nn


class WindFarm(nn.Module):
    def __init__(self, turbines=24, width=128):
        super().__init__()
        self.mix = nn.Sequential(nn.Conv1d(turbines, width, 5, padding=2), nn.SiLU(), nn.Conv1d(width, width, 5, padding=2), nn.SiLU())
        self.memory = nn.GRU(width, width, batch_first=True)
        self.power = nn.Linear(width, turbines)

    def forward(self, x):
        return self.power(self.memory(self.mix(x).transpose(1, 2))[0][:, -1])


def readings(count=600, turbines=24, length=48, seed=0):
    g = torch.Generator().manual_seed(seed)
    wind = torch.randn(count, turbines, length + 1, generator=g).cumsum(-1) * 0.1
    return wind[..., :-1], wind[..., -1].clamp(min=0) ** 2
