"""Sends what was measured to the board of the group, from a thread of its own."""
import threading
import time


class Reporter:
    def __init__(self):
        self.lock = threading.Lock()
        self.rows = []
        self.sent = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._loop, name="reporter", daemon=True)

    def start(self):
        self.thread.start()
        return self

    def note(self, step, **values):
        with self.lock:  #: LINE
            self.rows.append((step, values))

    def _send(self, rows):
        time.sleep(0.075)                        # the board is slow
        self.sent += len(rows)

    def _loop(self):
        while not self.stop.is_set():
            with self.lock:
                rows, self.rows = self.rows, []
                if rows:
                    self._send(rows)
            time.sleep(0.004)

    def close(self):
        self.stop.set()
        self.thread.join()
        self._send(self.rows)
