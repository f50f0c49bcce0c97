import numpy as np


class Recordings:
    """Wrist sensors: windows of six channels, cut out of long recordings, as numpy arrays."""

    def __init__(self, n=9000, length=40_000, window=200):
        self.rng = np.random.default_rng(0)
        self.signal = self.rng.standard_normal((6, length)).astype(np.float32)
        self.n, self.window = n, window

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        at = (i * 37) % (self.signal.shape[1] - self.window)
        return self.signal[:, at:at + self.window], i % 8


def as_lists(items):
    windows, labels = zip(*items)
    return list(windows), list(labels)
