from torch import nn


def stage(enter, leave):
    return nn.Sequential(nn.Conv2d(enter, leave, 3, padding=1), nn.ReLU(), nn.Conv2d(leave, leave, 3, padding=1), nn.ReLU())


class Eye(nn.Module):
    """A network of the kind of VGG that has learnt to tell things apart. It stays as it is."""

    def __init__(self, widths=(12, 32, 64, 96)):
        super().__init__()
        self.stages = nn.ModuleList(stage(a, b) for a, b in zip((1,) + widths, widths))
        self.smaller = nn.MaxPool2d(2)
        self.requires_grad_(False).eval()

    def forward(self, pictures):
        seen = {}
        for number, step in enumerate(self.stages, 1):
            pictures = step(pictures if number == 1 else self.smaller(pictures))
            seen[f"stage{number}"] = pictures
        return seen
