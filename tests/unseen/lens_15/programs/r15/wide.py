from torch import nn


def block(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(),
        nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(), nn.MaxPool2d(2),
    )


def wide(width=32, classes=8):
    return nn.Sequential(
        block(3, width), block(width, 2 * width), block(2 * width, 2 * width), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(2 * width, classes),
    )
