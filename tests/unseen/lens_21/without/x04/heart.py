import os

import numpy as np
import torch
from torch.utils.data import Dataset


def record(folder, patients=40, leads=6, length=3000):
    """One compressed file for each patient, as the clinic sends them."""
    rng = np.random.default_rng(4)
    for patient in range(patients):
        sick = patient % 2
        beat = 60 + 20 * rng.random() * (1 + sick)
        clock = np.arange(length) / beat
        wave = np.sin(2 * np.pi * clock) ** 15 + 0.3 * sick * np.sin(6 * np.pi * clock)
        leads_of = wave * rng.uniform(0.5, 1, (leads, 1)) + 0.02 * rng.standard_normal((leads, length))
        np.savez_compressed(os.path.join(folder, f"{patient:03d}.npz"), signal=(1000 * leads_of).astype(np.int16), sick=sick)


class Windows(Dataset):
    """A window of a recording, and whether the patient is sick."""

    def __init__(self, folder, window=256):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.window, self.patients = window, []
        for path in self.paths:
            with np.load(path) as file:
                self.patients.append((file["signal"], file["sick"]))

    def __len__(self):
        return 50 * len(self.paths)

    def __getitem__(self, index):
        signal, sick = self.patients[index % len(self.paths)]
        begin = index // len(self.paths) * 50
        window = signal[:, begin: begin + self.window].astype(np.float32) / 1000
        return torch.from_numpy(window), int(sick)
