import json
import threading


class Journal:
    """Lines go to a list at once and to the file from a thread, twice a second."""

    def __init__(self, path, period=0.5):
        self.path, self.period = path, period
        self.lines, self.lock = [], threading.Lock()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def add(self, **values):
        with self.lock:
            self.lines.append(values)

    def flush(self):
        with self.lock:
            lines, self.lines = self.lines, []
        if lines:
            with open(self.path, "a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)

    def run(self):
        while not self.stop.wait(self.period):
            self.flush()

    def close(self):
        self.stop.set()
        self.thread.join()
        self.flush()
