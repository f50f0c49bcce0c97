import queue
import random
import threading
import zlib

import numpy as np
import torch


class Replay:
    """Frames are kept packed, as raw ones would not fit; a thread makes the next batch ready."""

    def __init__(self, size=6000, shape=(4, 84, 84), batch=64):
        self.size, self.shape, self.batch = size, shape, batch
        self.rows, self.at = [], 0
        self.lock = threading.Lock()
        self.ready = queue.Queue(maxsize=1)
        self.closed = threading.Event()

    def add(self, frames, action, reward, after):
        row = zlib.compress(frames.tobytes(), 1), action, reward, zlib.compress(after.tobytes(), 1)
        with self.lock:
            if len(self.rows) < self.size:
                self.rows.append(row)
            else:
                self.rows[self.at] = row
            self.at = (self.at + 1) % self.size

    def sample(self):
        with self.lock:  #: LINE
            rows = random.sample(self.rows, self.batch)
            frames = np.stack([self.unpack(row[0]) for row in rows])
            after = np.stack([self.unpack(row[3]) for row in rows])
        actions = torch.tensor([row[1] for row in rows])
        rewards = torch.tensor([row[2] for row in rows])
        return torch.from_numpy(frames), actions, rewards, torch.from_numpy(after)

    def unpack(self, data):
        raw = np.frombuffer(zlib.decompress(data), dtype="uint8").reshape(self.shape)
        return raw.astype("float32") / 255.0

    def feed(self):
        while not self.closed.is_set():
            batch = self.sample()
            while not self.closed.is_set():
                try:
                    self.ready.put(batch, timeout=0.2)
                    break
                except queue.Full:
                    pass

    def start(self):
        self.thread = threading.Thread(target=self.feed, daemon=True)
        self.thread.start()

    def close(self):
        self.closed.set()
        self.thread.join()
