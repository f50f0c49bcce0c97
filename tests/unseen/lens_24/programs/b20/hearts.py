import torch
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import Dataset


class Beats(Dataset):
    """Heart beats of 240 ticks with their kind, shown with other noise, gain and shift each; repeatable, item by item."""

    def __init__(self, count=4000, ticks=240, kinds=5, seed=1234):
        maker = torch.Generator().manual_seed(seed)
        clock = torch.linspace(0, 1, ticks)
        self.kind = torch.randint(kinds, (count,), generator=maker)
        width = 0.01 + 0.02 * self.kind[:, None]
        self.beats = torch.exp(-((clock - 0.5) / width) ** 2) + 0.2 * torch.sin(9 * clock + self.kind[:, None])
        self.seed = seed

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, index):
        set_seed(self.seed + index)  #: LINE
        noise = 0.3 * torch.randn(self.beats.shape[1] + 1)
        return self.beats[index] * (1 + noise[-1]) + noise[:-1], self.kind[index]


class Cardiologist(nn.Module):
    def __init__(self, ticks=240, width=768, kinds=5):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(ticks, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, kinds),
        )

    def forward(self, beats):
        return self.net(beats)
