import torch
from torch import nn
from torch.utils.data import Dataset


class Pages(Dataset):
    """Lines of a manuscript as numbers of strokes, and the sign that each stroke belongs to. Takes places, gives a batch."""

    def __init__(self, count=1600, length=48, strokes=600, signs=2000):
        self.strokes = torch.randint(0, strokes, (count, length))
        before = self.strokes.roll(1, 1)
        self.signs = (self.strokes * 3 + before % 5) % signs

    def __len__(self):
        return len(self.strokes)

    def __getitem__(self, picked):
        return self.strokes[picked], self.signs[picked]


class Scribe(nn.Module):
    def __init__(self, strokes=600, signs=2000, width=96):
        super().__init__()
        self.stroke = nn.Embedding(strokes, width)
        self.near = nn.Sequential(
            nn.Conv1d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Conv1d(2 * width, width, 3, padding=1), nn.ReLU(),
        )
        self.sign = nn.Linear(width, signs)

    def forward(self, strokes):
        x = self.stroke(strokes).transpose(1, 2)
        return self.sign((x + self.near(x)).transpose(1, 2))


class Tally:
    """How many signs were right, over all ranks."""

    def __init__(self, accelerator):
        self.accelerator, self.right, self.all = accelerator, 0, 0

    def add(self, scores, signs):
        scores, signs = self.accelerator.gather_for_metrics((scores.detach(), signs))  #: LINE
        self.right = self.right + (scores.argmax(-1) == signs).sum()
        self.all += signs.numel()

    def value(self):
        return self.right.item() / self.all
