import torch
from torch import nn

from spectrum import Spectrum


class PitchNet(nn.Module):
    """The note of each frame of a hummed line."""

    def __init__(self, notes=36, width=64):
        super().__init__()
        self.spectrum = Spectrum()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d((1, 4))
        )
        self.out = nn.Sequential(nn.Linear(16 * 54, width), nn.ReLU(), nn.Linear(width, notes))

    def forward(self, sound):
        h = self.body(self.spectrum(sound)[:, None])
        return self.out(h.transpose(1, 2).flatten(2))


def hums(count, generator, rate=8000, notes=36, held=1024, length=9):
    """Notes held for one frame each, with some overtones."""
    line = torch.randint(0, notes, (count, length), generator=generator)
    pitch = 110 * 2 ** (line / 12)
    phase = torch.cumsum(6.283 * pitch.repeat_interleave(held, 1) / rate, 1)
    sound = phase.sin() + 0.5 * (2 * phase).sin() + 0.25 * (3 * phase).sin()
    return sound + 0.05 * torch.randn(sound.shape, generator=generator), line[:, :-1]
