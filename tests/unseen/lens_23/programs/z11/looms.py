from torch import nn
from torch.nn import functional as F


class Loom(nn.Module):
    def __init__(self, threads=24, width=128):
        super().__init__()
        self.enter = nn.Linear(threads, width)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tension, labels=None):
        scores = self.head(self.body(self.enter(tension)).mean(1))
        return {"loss": F.cross_entropy(scores, labels), "logits": scores}
