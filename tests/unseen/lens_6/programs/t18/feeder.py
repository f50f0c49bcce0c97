"""A thread draws examples ahead into a buffer that is shared with the training."""
import collections
import random
import threading
import time


class Feeder:
    def __init__(self, ahead):
        self.lock = threading.Lock()
        self.buffer = collections.deque()
        self.ahead = ahead
        self.random = random.Random(1)
        threading.Thread(target=self._feed, name="feeder", daemon=True).start()

    def _feed(self):
        while True:
            time.sleep(0.012)
            row = [self.random.random() for _ in range(32)]
            with self.lock:
                if len(self.buffer) < self.ahead:
                    self.buffer.append(row)

    def take(self):
        with self.lock:  #: LINE
            if len(self.buffer) > 1:
                return self.buffer.popleft()
        return [0.5] * 32
