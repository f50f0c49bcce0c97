from torch import nn


class Unit(nn.Module):
    def __init__(self, width, group=8):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, groups=width // group, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width),
        )
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(x + self.layers(x))


class RegNet(nn.Module):
    def __init__(self, width=64, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.first = nn.Sequential(Unit(width), Unit(width))
        self.down = nn.Conv2d(width, 2 * width, 2, stride=2)
        self.second = nn.Sequential(Unit(2 * width), Unit(2 * width))
        self.out = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.out(self.second(self.down(self.first(self.stem(x)))).mean((2, 3)))
