import math

import torch
from torch import nn


class Spectrum(nn.Module):
    """Log spectrum on a musical scale: 6 octaves from 55 Hz, 36 steps to the octave."""

    def __init__(self, rate=8000, window=2048, hop=1024, lowest=55.0, octaves=6, steps=36):
        super().__init__()
        self.rate, self.window, self.hop = rate, window, hop
        self.register_buffer("pitches", lowest * 2 ** (torch.arange(octaves * steps) / steps))
        self.register_buffer("kernel", self.waves())

    def waves(self):
        t = torch.arange(self.window, dtype=torch.float64) / self.rate
        width = (34 * self.rate / self.pitches.double()).clamp(max=self.window)
        centre = (t * self.rate - self.window / 2) / width[:, None]
        shape = torch.where(centre.abs() < 0.5, torch.cos(math.pi * centre) ** 2, 0.0) / width[:, None]
        angle = 2 * math.pi * self.pitches.double()[:, None] * t
        return torch.cat([shape * angle.cos(), shape * angle.sin()]).float()

    def forward(self, sound):
        frames = sound.unfold(1, self.window, self.hop)
        real, imag = (frames @ self.kernel.t()).chunk(2, 2)
        return torch.log(real.square() + imag.square() + 1e-6)
