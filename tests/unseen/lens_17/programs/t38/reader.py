import torch
from torch import nn
from torch.distributed.fsdp import fully_shard


class Reader(nn.Module):
    """Fills in the masked letters of a text."""

    def __init__(self, letters=200, width=192, depth=3, length=32):
        super().__init__()
        self.letters = nn.Embedding(letters, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.out = nn.Linear(width, letters)

    def forward(self, text):
        h = self.letters(text) + self.places
        for layer in self.layers:
            h = layer(h)
        return self.out(h)


def sharded(mesh):
    model = Reader()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)
