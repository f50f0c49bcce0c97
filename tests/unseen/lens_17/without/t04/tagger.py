import torch
from torch import nn


class Branch(nn.Module):
    def __init__(self, bands, width, tags):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(bands, width, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(width, width, 3, padding=1), nn.ReLU(),
        )
        self.out = nn.Linear(width, tags)

    def forward(self, x):
        return self.out(self.body(x).mean(2))


class Tagger(nn.Module):
    """One branch for drum loops, one for melodies."""

    def __init__(self, bands=64, width=128, tags=20):
        super().__init__()
        self.drums = Branch(bands, width, tags)
        self.keys = Branch(bands, width, tags)


class Catalogue:
    """Draws clips from the catalogue; a clip is either a drum loop or a melody."""

    def __init__(self, seed, bands=64, frames=96, tags=20):
        self.g = torch.Generator().manual_seed(seed)
        self.bands, self.frames = bands, frames
        self.probe = torch.randn(bands, tags, generator=torch.Generator().manual_seed(5))

    def take(self, count):
        x = torch.randn(count, self.bands, self.frames, generator=self.g)
        return x, (x.mean(2) @ self.probe > 0.4).float()

    def draw(self, batch):
        share = torch.rand(1, generator=self.g).item()
        drums = min(max(round(batch * share), 2), batch - 2)
        return self.take(drums), self.take(batch - drums)
