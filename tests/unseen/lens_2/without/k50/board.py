"""A board with one in-order queue. A worker thread runs what was put on it; a tensor of the board is read when the queue is empty."""
import queue
import threading
import time
import torch

READS = {"item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__", "nonzero", "__format__", "__repr__"}


class Board:
    def __init__(self):
        self.jobs = queue.Queue()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            seconds = self.jobs.get()
            time.sleep(seconds)
            self.jobs.task_done()

    def launch(self, ms):
        self.jobs.put(ms / 1e3)

    def drain(self):
        self.jobs.join()


board = Board()


class OnBoard(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in READS:
            board.drain()
            with torch._C.DisableTorchFunctionSubclass():
                return func(*(a.as_subclass(torch.Tensor) if isinstance(a, OnBoard) else a for a in args), **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})
