import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Calls(Dataset):
    """Calls of frogs, each mixed with the noise of a pond, as a spectrogram."""

    def __init__(self, count=3200, length=4000, kinds=12):
        clock = torch.arange(length) / 4000
        self.kind = torch.arange(count) % kinds
        self.voices = torch.stack([(6.283 * (200 + 90 * k) * clock).sin() * (9 * clock + k).cos() for k in range(kinds)])
        self.pond = torch.randn(20 * length)
        self.window = torch.hann_window(512)

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, index):
        voice = self.voices[self.kind[index]]
        begin = int(torch.randint(0, len(self.pond) - len(voice), ()))
        sound = voice.roll(begin) + 0.4 * self.pond[begin: begin + len(voice)]
        picture = torch.stft(sound, 512, 64, window=self.window, return_complex=True).abs().clamp_min(1e-4).log()
        return picture[:64], self.kind[index]


def loader(batch):
    return DataLoader(Calls(), batch_size=batch, shuffle=True, drop_last=True)


class Ear(nn.Module):
    def __init__(self, width=64, kinds=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(64, width, 5, 2, 2), nn.ReLU(), nn.Conv1d(width, 2 * width, 7, 1, 3), nn.ReLU(),
            nn.Conv1d(2 * width, 2 * width, 7, 1, 3), nn.ReLU(), nn.Conv1d(2 * width, 2 * width, 7, 1, 3), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(2 * width, kinds),
        )

    def forward(self, x):
        return self.net(x)
