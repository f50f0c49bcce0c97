import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset


class Alphabets(Dataset):
    """Old alphabets. An item is a task: tell the runes of one alphabet apart, by a few carvings of each."""

    def __init__(self, count=48, runes=6, pixels=20):
        self.shapes = torch.randn(count, runes, 1, pixels, pixels)
        self.runes = runes

    def __len__(self):
        return len(self.shapes)

    def __getitem__(self, index):
        carvings = self.shapes[index].unsqueeze(1) + torch.randn(self.runes, 5, 1, 20, 20)
        return carvings[:, :3], carvings[:, 3:]


class Prototypes(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 1, 1), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, 2, 1), nn.Flatten(),
        )

    def forward(self, known, asked):
        tasks, runes, shots = known.shape[:3]
        asks = asked.shape[2]
        codes = self.body(torch.cat([known.flatten(0, 2), asked.flatten(0, 2)])) / 10
        centres = codes[:tasks * runes * shots].view(tasks, runes, shots, -1).mean(2)
        far = torch.cdist(codes[tasks * runes * shots:].view(tasks, runes * asks, -1), centres)
        truth = torch.arange(runes).repeat_interleave(asks).repeat(tasks)
        return F.cross_entropy(-far.flatten(0, 1), truth)
