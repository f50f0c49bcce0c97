import numpy as np
import torch


class Walks(torch.utils.data.Dataset):
    """Four seconds of a sensor in a shoe; what the wearer does."""

    def __init__(self, count=1600, length=200, axes=6, kinds=8):
        rng = np.random.default_rng(0)
        self.signal = rng.standard_normal((count, axes, length), dtype=np.float32)
        self.kinds = rng.integers(0, kinds, count).tolist()

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, index):
        return self.signal[index], self.kinds[index]


def collate(rows):
    signals, kinds = zip(*rows)
    return torch.from_numpy(np.stack(signals)), torch.tensor(kinds)
