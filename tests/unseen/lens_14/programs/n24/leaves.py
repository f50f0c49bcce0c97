import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


class Leaves(Dataset):
    def __init__(self, count=400, size=72, crop=56, classes=8, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(classes, size=count)
        base = rng.integers(0, 255, size=(classes, size, size, 3))
        noise = rng.integers(-40, 40, size=(count, size, size, 3))
        self.pictures = (base[self.labels] + noise).clip(0, 255).astype(np.uint8)
        self.crop = crop

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = Image.fromarray(self.pictures[i])
        image = image.rotate(float(torch.empty(()).uniform_(-20, 20)), Image.Resampling.BILINEAR)
        top, left = torch.randint(0, image.height - self.crop, (2,)).tolist()
        image = image.crop((left, top, left + self.crop, top + self.crop))
        array = np.asarray(image, dtype=np.float32) / 255.0
        return torch.from_numpy(array).permute(2, 0, 1).contiguous(), int(self.labels[i])
