import io

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


def camera(count=480, classes=8, side=224, seed=0):
    """JPEG files, as they would lie in a bucket, and their labels."""
    rng = np.random.default_rng(seed)
    files, labels = [], rng.integers(0, classes, count)
    for label in labels:
        small = rng.integers(0, 200, (14, 14, 3)).astype("uint8")
        small[label : label + 3, :, label % 3] = 250
        picture = Image.fromarray(small).resize((side, side), Image.BILINEAR)
        packed = io.BytesIO()
        picture.save(packed, "JPEG", quality=88)
        files.append(packed.getvalue())
    return files, torch.from_numpy(labels).long()


class Photos(Dataset):
    def __init__(self, files, labels, size=40):
        self.files, self.labels, self.size = files, labels, size

    def __len__(self):
        return len(self.files)

    def thumbnail(self, data):
        picture = Image.open(io.BytesIO(data)).convert("RGB")
        picture = picture.resize((self.size, self.size), Image.LANCZOS)
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1)

    def __getitem__(self, index):
        picture = self.thumbnail(self.files[index])  #: LINE
        if torch.rand(()) < 0.5:
            picture = picture.flip(2)
        return picture.float() / 127.5 - 1.0, self.labels[index]


def loader(batch_size=24):
    return DataLoader(Photos(*camera()), batch_size, shuffle=True, drop_last=True)
