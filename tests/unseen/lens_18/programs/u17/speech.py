import torch
from torch import nn


class Speech(nn.Module):
    """Speaker of an utterance, from its frames."""

    def __init__(self, bands=40, width=224, speakers=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(bands, width, 5, padding=2), nn.ReLU(), nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
        )
        self.out = nn.Linear(width, speakers)

    def forward(self, x):
        return self.out(self.body(x).mean(2))


class Utterances:
    """Batches of utterances of one length each; the list goes from short to long."""

    def __init__(self, batches=48, batch=16, bands=40, speakers=16):
        g = torch.Generator().manual_seed(0)
        frames = torch.linspace(20, 150, batches).long().tolist()
        self.who = torch.randint(0, speakers, (batches, batch), generator=g)
        self.sound = [torch.randn(batch, bands, n, generator=g) for n in frames]

    def part(self, rank, world):
        """The batches of one rank."""
        count = len(self.sound)
        share = count // world
        return range(rank * share, (rank + 1) * share)  #: LINE
