import time

import torch
from torch.utils.data import Dataset


class Ceramics(Dataset):
    """Photographs of sherds; each has to be fetched and unpacked."""

    def __init__(self, count):
        g = torch.Generator().manual_seed(2)
        self.seeds = torch.randint(1 << 30, (count,), generator=g).tolist()

    def __len__(self):
        return len(self.seeds)

    def __getitem__(self, k):
        time.sleep(0.004)
        g = torch.Generator().manual_seed(self.seeds[k])
        pixels = torch.randn(3, 16, 16, generator=g)
        return pixels, int(pixels.mean() > 0)
