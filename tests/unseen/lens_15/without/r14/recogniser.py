from torch import nn

from frontend import LogMel


class Recogniser(nn.Module):
    def __init__(self, classes=20, width=112):
        super().__init__()
        self.frontend = LogMel()
        self.enter = nn.Conv1d(128, width, 5, stride=2, padding=2)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(width, classes)

    def forward(self, waves):
        h = self.enter(self.frontend(waves)).relu().transpose(1, 2)
        return self.out(self.body(h).mean(1))
