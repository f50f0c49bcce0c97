from torch import nn


class Backbone(nn.Module):
    """Pretrained elsewhere, kept as it is."""

    def __init__(self, c=48):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(16, c, 5, 2, 2), nn.GELU(), nn.Conv1d(c, 2 * c, 5, 2, 2), nn.GELU(), nn.Conv1d(2 * c, 2 * c, 3, 1, 1), nn.GELU())

    def forward(self, x):
        return self.net(x).transpose(1, 2)


class Emotion(nn.Module):
    def __init__(self, width=96, classes=6):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 256, dropout=0.1, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(width, classes)

    def forward(self, h):
        return self.out(self.blocks(h).mean(1))
