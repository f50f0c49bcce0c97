"""Stands for a device: a worker thread takes kernels from a queue, one after the other."""
import queue
import threading
import time

import torch

_READS = ("item", "cpu", "tolist", "numpy", "__bool__", "__float__", "__int__", "__format__", "__repr__")


class Stream:
    def __init__(self, depth):
        self.queue = queue.Queue(maxsize=depth)
        threading.Thread(target=self._work, name="stream", daemon=True).start()

    def _work(self):
        while True:
            time.sleep(self.queue.get() / 1000)
            self.queue.task_done()

    def launch(self, ms):
        self.queue.put(ms)

    def finish(self):
        self.queue.join()


stream = Stream(depth=4)


class Remote(torch.Tensor):
    """A tensor of the device; a read on the host waits for the stream."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in _READS:
            stream.finish()
            with torch._C.DisableTorchFunctionSubclass():
                return func(args[0].as_subclass(torch.Tensor), *args[1:], **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})


class Kernels(torch.autograd.Function):
    """What a block of layers takes, forward and backward."""

    @staticmethod
    def forward(ctx, x, forward_ms, backward_ms):
        ctx.backward_ms = backward_ms
        stream.launch(forward_ms)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        stream.launch(ctx.backward_ms)
        return grad, None, None
