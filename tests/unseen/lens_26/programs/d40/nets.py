from torch import nn


class Stage(nn.Module):
    def __init__(self, width, grow=3):
        super().__init__()
        self.net = nn.Sequential(nn.RMSNorm(width), nn.Linear(width, grow * width), nn.SiLU(), nn.Linear(grow * width, width))

    def forward(self, x):
        return x + self.net(x)


class Sails(nn.Module):
    """Wind and trim -> pull on each of the ropes."""

    def __init__(self, inputs=40, width=320, stages=2, ropes=14):
        super().__init__()
        self.enter = nn.Linear(inputs, width)
        self.stages = nn.ModuleList(Stage(width) for _ in range(stages))
        self.leave = nn.Linear(width, ropes)

    def forward(self, x):
        x = self.enter(x)
        for stage in self.stages:
            x = stage(x)
        return self.leave(x)
