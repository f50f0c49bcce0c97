import torch
from torch import nn

ALPHABET = "ABCDEFGHJKLMNPRSTUVWXYZ0123456789 "


def photographs(count=1500, letters=20, height=16, stride=4):
    """Signs over motorways, as strips of grey, and what is written on them."""
    glyphs = torch.rand(len(ALPHABET), height, stride)
    written = torch.randint(0, len(ALPHABET), (count, letters))
    strips = glyphs[written].permute(0, 2, 1, 3).reshape(count, height, letters * stride)
    return strips + 0.5 * torch.randn_like(strips), written


class Reader(nn.Module):
    """Scores of each character, by place."""

    def __init__(self, height=16, width=96):
        super().__init__()
        self.look = nn.Sequential(
            nn.Conv1d(height, width, 5, 1, 2), nn.ReLU(), nn.Conv1d(width, width, 4, 2, 1), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 3, 1, 1), nn.ReLU(), nn.Conv1d(2 * width, 2 * width, 4, 2, 1), nn.ReLU(),
        )
        self.name = nn.Linear(2 * width, len(ALPHABET))

    def forward(self, strips):
        return self.name(self.look(strips).transpose(1, 2))
