import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Encoder(nn.Module):
    def __init__(self, vocabulary=2000, width=128, depth=4, save_memory=False):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True, norm_first=True) for _ in range(depth))
        self.head = nn.Linear(width, 20)
        self.save_memory = save_memory

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            if self.save_memory:
                h = checkpoint(layer, h, use_reentrant=False)
            else:
                h = layer(h)
        return self.head(h.mean(1))
