import time

import torch.distributed as dist


class Stopwatch:
    """Times a lap of the loop."""

    def __init__(self):
        self.laps = []
        self.began = None

    def __enter__(self):
        self.began = time.perf_counter()
        return self

    def __exit__(self, *exc):
        self.laps.append(time.perf_counter() - self.began)
