import threading
import time


class Sender:
    """Takes the numbers of each step and sends them to the dashboard, in its own thread."""

    def __init__(self):
        self.lock = threading.Lock()
        self.waiting, self.sent = [], 0
        self.done = False
        self.thread = threading.Thread(target=self._loop)
        self.thread.start()

    def put(self, record):
        with self.lock:
            self.waiting.append(record)

    def _loop(self):
        while not self.done:
            with self.lock:
                batch, self.waiting = self.waiting, []
            time.sleep(0.03)  # the dashboard takes it
            self.sent += len(batch)

    def close(self):
        self.done = True
        self.thread.join()
