"""Reads and unpacks batches in a thread; at most `depth` wait in the queue."""

import queue
import threading

from maps import unpack


class Ahead:
    def __init__(self, folder, batches, depth):
        self.queue = queue.Queue(depth)
        self.batches = batches
        self.thread = threading.Thread(target=self._fill, args=(folder,), daemon=True)
        self.thread.start()

    def _fill(self, folder):
        for n in range(self.batches):
            self.queue.put(unpack(folder, n))

    def __iter__(self):
        for _ in range(self.batches):
            yield self.queue.get()
