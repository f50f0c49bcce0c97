"""An accelerator in a thread: it works through its queue while the host goes on."""
import queue
import threading
import time

import torch
from torch import nn

_READS = frozenset("item cpu tolist numpy __bool__ __float__ __int__ __format__ __repr__".split())


class Accelerator(threading.Thread):
    def __init__(self):
        super().__init__(name="accelerator", daemon=True)
        self.work = queue.Queue(maxsize=5)
        self.start()

    def run(self):
        while True:
            milliseconds = self.work.get()
            time.sleep(milliseconds / 1000)
            self.work.task_done()


_accelerator = Accelerator()


class AccTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in _READS:
            _accelerator.work.join()
            with torch._C.DisableTorchFunctionSubclass():
                return func(args[0].as_subclass(torch.Tensor), *args[1:], **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})


class Layer(nn.Linear):
    """A linear layer whose kernels take 7 ms forward and 12 ms backward."""

    def forward(self, x):
        _accelerator.work.put(7)
        y = super().forward(x)
        if y.requires_grad:
            y.register_hook(self._backward)
        return y

    @staticmethod
    def _backward(grad):
        _accelerator.work.put(12)
        return grad
