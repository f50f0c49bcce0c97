from torch import nn


class Locks(nn.Module):
    """Level of a canal between its locks, hour by hour."""

    def __init__(self, gauges=24, width=128, layers=2):
        super().__init__()
        self.enter = nn.Linear(gauges, width)
        layer = dict(d_model=width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(**layer) for _ in range(layers))
        self.out = nn.Linear(width, gauges)

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)
