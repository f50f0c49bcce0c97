import torch
from torch import nn


def mel_filters(bins, count, rate):
    def to_hz(m):
        return 700 * (10 ** (m / 2595) - 1)

    top = 2595 * torch.log10(torch.tensor(1 + rate / 2 / 700))
    edges = to_hz(torch.linspace(0, top.item(), count + 2))
    frequencies = torch.linspace(0, rate / 2, bins)
    bank = torch.zeros(count, bins)
    for k in range(count):
        up = (frequencies - edges[k]) / (edges[k + 1] - edges[k])
        down = (edges[k + 2] - frequencies) / (edges[k + 2] - edges[k + 1])
        bank[k] = torch.minimum(up, down).clamp(min=0)
    return bank


class LogMel(nn.Module):
    def __init__(self, rate=16000, size=512, hop=160, count=128):
        super().__init__()
        self.rate, self.size, self.hop, self.count = rate, size, hop, count
        self.register_buffer("window", torch.hann_window(size))

    def forward(self, waves):
        spectrum = torch.stft(waves, self.size, self.hop, window=self.window, return_complex=True)
        filters = mel_filters(self.size // 2 + 1, self.count, self.rate)  #: LINE
        mel = filters @ spectrum.abs().square()
        mel = (mel + 1e-6).log()
        return (mel - mel.mean((1, 2), keepdim=True)) / mel.std((1, 2), keepdim=True)
