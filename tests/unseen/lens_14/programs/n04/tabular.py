import torch
from torch import nn


class FeatureTokens(nn.Module):
    def __init__(self, sizes, numbers, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, width) for n in sizes)
        self.scale = nn.Parameter(torch.randn(numbers, width) * 0.02)
        self.shift = nn.Parameter(torch.zeros(numbers, width))
        self.start = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, categories, numbers):
        rows = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        tokens = [self.start.expand(len(numbers), -1, -1), torch.stack(rows, 1), numbers[..., None] * self.scale + self.shift]
        return torch.cat(tokens, 1)


class FTTransformer(nn.Module):
    def __init__(self, sizes, numbers, width=192, depth=1):
        super().__init__()
        self.tokens = FeatureTokens(sizes, numbers, width)
        self.body = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, categories, numbers):
        h = self.tokens(categories, numbers)
        for layer in self.body:
            h = layer(h)
        return self.head(h[:, 0]).squeeze(1)
