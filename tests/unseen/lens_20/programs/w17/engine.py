import json
import os

import numpy as np
import torch
from torch.utils.data import Dataset


class Engine(Dataset):
    """Noise of an engine, a quarter of a second each, and its load. The noise stays in its file, which is large."""

    def __init__(self, folder):
        self.noise = np.load(os.path.join(folder, "noise.npy"), mmap_mode="r")
        with open(os.path.join(folder, "load.json")) as file:
            self.load = torch.tensor(json.load(file))

    def __len__(self):
        return len(self.noise)

    def __getitems__(self, picked):
        noise = torch.from_numpy(self.noise[picked])
        return noise.unsqueeze(1), self.load[torch.tensor(picked)]


def record(folder, count=5000, length=500):
    load = np.random.default_rng(0).random(count, dtype=np.float32)
    noise = np.random.default_rng(1).standard_normal((count, length), dtype=np.float32) * (0.5 + load[:, None])
    np.save(os.path.join(folder, "noise.npy"), noise)
    with open(os.path.join(folder, "load.json"), "w") as file:
        json.dump(load.tolist(), file)
