from torch import nn
from torch.nn import functional as F

from table import Table


class Talk(nn.Module):
    """The next word, by the 15 before it."""

    def __init__(self, words=8000, width=128, hidden=512):
        super().__init__()
        self.table = Table(words, width)
        self.body = nn.Sequential(
            nn.Linear(15 * width, hidden), nn.GELU(), nn.LayerNorm(hidden), nn.Linear(hidden, width), nn.GELU(),
        )

    def forward(self, text):
        table = self.table.whole()
        x = F.embedding(text, table)
        x = self.body(x.flatten(1))
        return x @ table.t()
