import threading
import time


class Stats:
    """Counters that a thread exports all the time."""

    def __init__(self, interval=0.02):
        self.lock = threading.Lock()
        self.values = {}
        self.interval = interval
        self.sent = 0
        threading.Thread(target=self._export, daemon=True, name="exporter").start()

    def add(self, name, value):
        with self.lock:  #: LINE
            self.values.setdefault(name, []).append(value)

    def _post(self, payload):
        time.sleep(0.05)
        self.sent += len(payload)

    def _export(self):
        while True:
            time.sleep(self.interval)
            with self.lock:
                self._post({k: sum(v) / len(v) for k, v in self.values.items()})
                self.values.clear()
