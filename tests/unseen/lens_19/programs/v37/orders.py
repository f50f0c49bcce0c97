from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.back = nn.Linear(width, width)

    def forward(self, x):
        y = self.norm(x)
        return x + self.back(self.gate(y).sigmoid() * self.value(y))


class Orders(nn.Module):
    """Demand of the next week by the orders of the last ones."""

    def __init__(self, columns=64, width=96, depth=32):
        super().__init__()
        self.enter = nn.Linear(columns, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x).squeeze(1)
