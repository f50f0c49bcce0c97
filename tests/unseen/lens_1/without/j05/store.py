import time

import torch


class RemoteStore:
    """Samples by key; each get is one round trip."""

    def __init__(self, size, latency):
        self.size = size
        self.latency = latency

    def fetch(self, key):
        time.sleep(self.latency)
        g = torch.Generator().manual_seed(key)
        return torch.randn(3, 32, 32, generator=g), key % 10
