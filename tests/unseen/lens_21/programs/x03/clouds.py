import numpy as np
import torch
from torch.utils.data import Dataset


class Clouds(Dataset):
    """Points on the surface of a ball, a box or a tube."""

    def __init__(self, count=900, points=128, seed=12):
        rng = np.random.default_rng(seed)
        self.kinds = rng.integers(0, 3, count)
        clouds = rng.standard_normal((count, points, 3)).astype(np.float32)
        size = [np.linalg.norm(clouds, axis=2), np.abs(clouds).max(2), np.linalg.norm(clouds[..., :2], axis=2)]
        self.clouds = clouds / np.choose(self.kinds[:, None], size)[..., None]

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, index):
        return self.clouds[index], self.kinds[index]


def collate(examples):
    clouds = np.array([cloud for cloud, _ in examples])
    kinds = [kind for _, kind in examples]
    return torch.tensor(clouds), torch.tensor(kinds)
