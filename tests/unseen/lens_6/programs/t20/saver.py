"""Saves in the background."""
import os
import queue
import tempfile
import threading

import torch


class Saver:
    def __init__(self):
        self.path = os.path.join(tempfile.mkdtemp(prefix="saver_"), "model.pt")
        self.jobs = queue.Queue(maxsize=2)
        self.thread = threading.Thread(target=self._work, name="saver")
        self.thread.start()

    def _work(self):
        while (state := self.jobs.get()) is not None:
            torch.save(state, self.path)

    def save(self, model):
        state = {name: value.detach().clone() for name, value in model.state_dict().items()}
        self.jobs.put(state)  #: LINE

    def close(self):
        self.jobs.put(None)
        self.thread.join()
