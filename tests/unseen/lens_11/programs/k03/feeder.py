"""A thread that makes the next batches while the current one is trained on."""
import queue
import threading

import numpy as np
import torch


class Feeder:
    def __init__(self, path, batch, total, depth=4):
        self.signal = np.load(path, mmap_mode="r")
        self.batch, self.total = batch, total
        self.ready = queue.Queue(depth)
        self.lock = threading.Lock()
        self.served = 0
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        rng = np.random.default_rng(2)
        for _ in range(self.total):
            rows = np.sort(rng.integers(0, len(self.signal), self.batch))
            x = np.asarray(self.signal[rows])
            x -= x.mean(-1, keepdims=True)
            x /= x.std(-1, keepdims=True) + 1e-6
            self.ready.put(torch.from_numpy(x))

    def next(self):
        batch = self.ready.get()
        with self.lock:
            self.served += 1
        return batch
