"""A card with memory of its own. Copies go through the queue of the card; only a source in locked memory can be left to it."""
import queue
import threading
import time
import torch


class Card:
    def __init__(self):
        self._q = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        while True:
            seconds, gate = self._q.get()
            time.sleep(seconds)
            if gate is not None:
                gate.release()

    def kernel(self, seconds):
        self._q.put((seconds, None))

    def finish(self, seconds=0.0):
        gate = threading.Lock()
        gate.acquire()
        self._q.put((seconds, gate))
        gate.acquire()


card = Card()


class Locked(torch.Tensor):
    """Host memory that the card may read by itself."""


def locked(*shape):
    return torch.zeros(*shape).as_subclass(Locked)


class Slot(torch.Tensor):
    """A place in the memory of the card."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") == "copy_" and isinstance(args[0], Slot):
            if isinstance(args[1], Locked):
                card.kernel(0.001)
            else:
                card.finish(0.001)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))
