import json
import queue
import threading
import time


class Tracker:
    """Sends the scalars of each step to a server; a thread waits for the answers."""

    def __init__(self, answer_s=0.02):
        self.answer_s = answer_s
        self.sent = 0
        self.todo = queue.Queue()
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.thread.start()

    def log(self, step, values):
        self.todo.put({"step": step, **values})

    def _send(self):
        while True:
            row = self.todo.get()
            if row is None:
                return
            self.sent += len(json.dumps(row))
            time.sleep(self.answer_s)

    def close(self):
        self.todo.put(None)
        self.thread.join()
