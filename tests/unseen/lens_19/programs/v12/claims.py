from torch import nn


class Claims(nn.Module):
    """Cost of a claim by the columns of its form."""

    def __init__(self, columns=48, width=512, depth=5):
        super().__init__()
        layers = [nn.Linear(columns, width), nn.GELU()]
        for _ in range(depth):
            layers += [nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def split(model, decay=0.05):
    """Two groups: matrices decay, biases and norms do not."""
    matrices, others = [], []
    for p in model.parameters():
        (matrices if p.ndim > 1 else others).append(p)
    return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
