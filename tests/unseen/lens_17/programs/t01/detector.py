import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self, width=32, kinds=6, sizes=2):
        super().__init__()
        self.kinds = kinds
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 2, 1), nn.ReLU(), nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.ReLU(),
        )
        self.head = nn.Conv2d(4 * width, sizes * (kinds + 4), 3, padding=1)

    def forward(self, x):
        h = self.head(self.body(x)).permute(0, 2, 3, 1).reshape(len(x), -1, self.kinds + 4)
        return h[..., :self.kinds], h[..., self.kinds:]


def scenes(count, objects, generator, side=64, kinds=6):
    """Pictures with coloured boxes."""
    low = (side - 26) * torch.rand(count, objects, 2, generator=generator)
    boxes = torch.cat([low, low + 6 + 20 * torch.rand(count, objects, 2, generator=generator)], -1)
    labels = torch.randint(1, kinds, (count, objects), generator=generator)
    x = torch.arange(side) + 0.5
    across = (x >= boxes[..., 0:1]) & (x < boxes[..., 2:3])
    down = (x >= boxes[..., 1:2]) & (x < boxes[..., 3:4])
    inside = (down[..., :, None] & across[..., None, :]).float()
    picture = torch.einsum("nohw,noc->nchw", inside, torch.stack([labels, labels % 2, labels % 3], -1).float())
    return picture + 0.1 * torch.randn(count, 3, side, side, generator=generator), boxes, labels
