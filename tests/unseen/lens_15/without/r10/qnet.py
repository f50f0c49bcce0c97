from torch import nn


class QNet(nn.Module):
    def __init__(self, actions=3, width=24):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(2 * width * 49, 256), nn.ReLU(), nn.Linear(256, actions),
        )

    def forward(self, x):
        return self.layers(x)
