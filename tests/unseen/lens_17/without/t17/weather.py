import torch
from torch import nn


class RadarNet(nn.Module):
    """Rain of the next frame from four radar frames."""

    def __init__(self, frames=4, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(frames, width, 3, padding=1), nn.GELU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GELU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GELU(),
            nn.Conv2d(width, 1, 3, padding=1),
        )

    def forward(self, x):
        return self.body(x)


class StationNet(nn.Module):
    """The same area as a mesh of stations, each with its own readings."""

    def __init__(self, readings=16, width=96):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(readings, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.body(x)


class Archive:
    """Each hour has either a radar scan or station readings; seasons differ, and ranks begin in different ones."""

    def __init__(self, rank, side=24, stations=800):
        self.g = torch.Generator().manual_seed(11 + rank)
        self.side, self.stations, self.season = side, stations, rank

    def hours(self, count):
        share = 0.8 if self.season % 2 == 0 else 0.2
        radar = round(count * share) + int(torch.randint(-2, 3, (1,), generator=self.g))
        self.season += 1
        scans = torch.rand(radar, 4, self.side, self.side, generator=self.g)
        rain = scans.mean(1, keepdim=True).roll(1, 3)
        readings = torch.randn(count - radar, self.stations, 16, generator=self.g)
        return scans, rain, readings, readings[..., :3].prod(-1, keepdim=True)
