from torch import nn


class VGG(nn.Module):
    def __init__(self, widths=(32, 64, 128), classes=16):
        super().__init__()
        layers, inside = [], 3
        for width in widths:
            layers += [nn.Conv2d(inside, width, 3, padding=1), nn.GroupNorm(8, width), nn.ReLU(), nn.MaxPool2d(2)]
            inside = width
        self.features = nn.Sequential(*layers)
        self.out = nn.Sequential(nn.Flatten(), nn.Linear(inside * 16, 192), nn.ReLU(), nn.Linear(192, classes))

    def forward(self, x):
        return self.out(self.features(x))
