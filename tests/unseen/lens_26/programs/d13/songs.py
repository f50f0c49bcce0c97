import base64
import json
import zlib

import numpy as np
import torch
from torch.utils.data import IterableDataset

WINDOW = np.hanning(256).astype(np.float32)


def record(path, count=2000, length=4096, kinds=5):
    """Sounds from under water, a line of JSON each: the kind of whale and the packed samples."""
    random = np.random.default_rng(0)
    clock = np.arange(length)
    with open(path, "w") as file:
        for _ in range(count):
            kind = int(random.integers(kinds))
            sound = np.sin(clock * (0.05 + 0.03 * kind) + random.random() * 6) + 0.2 * random.standard_normal(length)
            packed = zlib.compress((8 * sound).astype(np.int16).tobytes(), 1)
            file.write(json.dumps({"kind": kind, "sound": base64.b64encode(packed).decode()}) + "\n")


def unpack(line):
    """A line as a spectrogram (31 times 129) and its kind."""
    entry = json.loads(line)
    sound = np.frombuffer(zlib.decompress(base64.b64decode(entry["sound"])), np.int16).astype(np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(sound, 256)[::128] * WINDOW
    return torch.from_numpy(np.log1p(np.abs(np.fft.rfft(frames)))), entry["kind"]


class Songs(IterableDataset):
    def __init__(self, path, rank, world):
        self.path, self.rank, self.world = path, rank, world

    def __iter__(self):
        while True:
            with open(self.path) as file:
                for number, line in enumerate(file):
                    picture, kind = unpack(line)  #: LINE
                    if number % self.world == self.rank:
                        yield picture, kind
