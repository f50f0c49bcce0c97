import numpy as np
import torch
from torch.utils.data import Dataset


class Quakes(Dataset):
    """Ground motion at a station, and the moment at which the shaking begins."""

    def __init__(self, count=1200, length=640, seed=9):
        self.rng = np.random.default_rng(seed)
        self.count, self.length = count, length
        self.onset = self.rng.integers(length // 5, 4 * length // 5, count)
        self.noise = self.rng.standard_normal((count, 3, length)).astype(np.float32)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        after = np.arange(self.length) - self.onset[index]
        shake = np.where(after > 0, 4 * np.exp(-after.clip(0) / 40), 0.5)
        return self.noise[index] * shake.astype(np.float32), self.onset[index] / self.length


def collate(examples):
    motion = [motion for motion, _ in examples]
    onset = [onset for _, onset in examples]
    return torch.from_numpy(np.stack(motion)), torch.tensor(onset, dtype=torch.float32)
