import queue
import threading

import torch


class BackgroundSaver:
    """The state is copied in the step (small), and written by a thread."""

    def __init__(self, path):
        self.path = path
        self.todo = queue.Queue(maxsize=2)
        self.thread = threading.Thread(target=self._write)
        self.thread.start()

    def save(self, state):
        copy = {k: v.detach().clone() for k, v in state.items()}
        try:
            self.todo.put_nowait(copy)
        except queue.Full:
            pass  # the next one will do

    def _write(self):
        while (state := self.todo.get()) is not None:
            torch.save(state, self.path)

    def close(self):
        self.todo.put(None)
        self.thread.join()
