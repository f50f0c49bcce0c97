from torch import nn


def conv(inside, outside, stride=1):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()
    )


class Detector(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(
            conv(1, width), conv(width, width), conv(width, 2 * width, 2), conv(2 * width, 2 * width),
            conv(2 * width, 4 * width, 2), conv(4 * width, 4 * width), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.out = nn.Linear(4 * width, 2)

    def forward(self, x):
        return self.out(self.body(x))
