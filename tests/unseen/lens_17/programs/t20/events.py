import math

import torch
from torch import nn


class LogMel(nn.Module):
    def __init__(self, rate=16000, window=512, hop=256, bands=48):
        super().__init__()
        self.window, self.hop = window, hop
        edges = torch.linspace(0, 2595 * math.log10(1 + rate / 1400), bands + 2)
        edges = 700 * (10 ** (edges / 2595) - 1)
        bins = torch.linspace(0, rate / 2, window // 2 + 1)
        up = (bins[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
        down = (edges[2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
        self.register_buffer("bands", torch.minimum(up, down).clamp(min=0), persistent=False)

    def forward(self, sound):
        shape = torch.hann_window(self.window, device=sound.device)
        spectrum = torch.stft(sound, self.window, self.hop, window=shape, return_complex=True).abs()
        return torch.log(spectrum.square().transpose(1, 2) @ self.bands + 1e-5)


class EventNet(nn.Module):
    """Bangs, chirps and hums in street noise, frame by frame."""

    def __init__(self, bands=48, width=96, kinds=3):
        super().__init__()
        self.front = LogMel(bands=bands)
        self.body = nn.GRU(bands, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, kinds)

    def forward(self, sound):
        return self.out(self.body(self.front(sound))[0])


def street(count, generator, frames=40, hop=256):
    length = frames * hop
    t = torch.arange(length) / 16000
    on = torch.rand(count, 3, frames // 8, generator=generator) < 0.3
    gate = on.repeat_interleave(8 * hop, 2).float()
    noise = torch.randn(count, length, generator=generator)
    sound = 0.1 * noise + gate[:, 0] * noise + gate[:, 1] * torch.sin(9000 * t * (1 + t)) + gate[:, 2] * torch.sin(700 * t)
    labels = on.repeat_interleave(8, 2).float()
    return sound, torch.cat([labels, labels[..., -1:]], 2).transpose(1, 2)
