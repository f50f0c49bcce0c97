from torch import nn


class ActivityNet(nn.Module):
    def __init__(self, channels=6, width=104, kinds=8):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(channels, width, 7, padding=3), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(width, 2 * width, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        )
        self.out = nn.Linear(2 * width, kinds)

    def forward(self, x):
        return self.out(self.body(x))
