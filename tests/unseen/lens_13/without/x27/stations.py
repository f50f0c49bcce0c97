import os

import numpy as np
import torch
from torch.utils.data import Dataset


def record(folder, stations=8, hours=8000, seed=3):
    rng = np.random.default_rng(seed)
    for s in range(stations):
        values = rng.normal(size=(hours, 3)).cumsum(0).astype(np.float32) * 0.02
        np.savez_compressed(os.path.join(folder, f"station{s}.npz"), values=values, place=rng.normal(size=2))


class Windows(Dataset):
    def __init__(self, folder, length=72, ahead=6):
        self.paths = [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.endswith(".npz")]
        self.length, self.ahead = length, ahead
        self.series = [np.load(p)["values"] for p in self.paths]

    def __len__(self):
        return 100 * len(self.paths)

    def __getitem__(self, i):
        station, part = divmod(i, 100)
        values = self.series[station]
        start = part * (len(values) - self.length - self.ahead) // 100
        window = torch.from_numpy(values[start:start + self.length + self.ahead])
        return window[:self.length], window[self.length:, 0]
