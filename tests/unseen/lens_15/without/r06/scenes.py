import torch
from torch.utils.data import Dataset


class Scenes(Dataset):
    """Pictures of coloured boxes, with a class for each pixel."""

    def __init__(self, count=1000, size=64, classes=8, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.masks = torch.zeros(count, size, size, dtype=torch.int64)
        for mask in self.masks:
            for _ in range(3):
                y, x = torch.randint(size - 24, (2,), generator=g).tolist()
                h, w = torch.randint(8, 24, (2,), generator=g).tolist()
                mask[y:y + h, x:x + w] = torch.randint(1, classes, (1,), generator=g)
        self.colours = torch.rand(classes, 3, generator=g)
        self.noise = 0.2 * torch.randn(3, size, size, generator=g)

    def __len__(self):
        return len(self.masks)

    def __getitem__(self, index):
        mask = self.masks[index]
        return self.colours[mask].permute(2, 0, 1) + self.noise, mask
