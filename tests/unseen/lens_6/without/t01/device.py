"""An accelerator played by a thread: kernels run in order and take their time; the host may run six ahead."""
import queue
import threading
import time

import torch
from torch import nn

_kernels = queue.Queue(maxsize=6)
_HOST_READS = {"item", "cpu", "tolist", "numpy", "__bool__", "__float__", "__int__", "__format__", "__repr__"}


def _run():
    while True:
        seconds = _kernels.get()
        time.sleep(seconds)
        _kernels.task_done()


threading.Thread(target=_run, name="device", daemon=True).start()


def launch(ms):
    _kernels.put(ms / 1000)


class DeviceTensor(torch.Tensor):
    """Its numbers are on the device: who reads them on the host waits for the kernels before."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in _HOST_READS:
            _kernels.join()
            with torch._C.DisableTorchFunctionSubclass():
                return func(args[0].as_subclass(torch.Tensor), *args[1:], **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})


def to_device(tensor):
    return tensor.as_subclass(DeviceTensor)


class OnDevice(nn.Module):
    """A layer with the time of its kernels."""

    def __init__(self, layer, forward_ms, backward_ms):
        super().__init__()
        self.layer, self.forward_ms, self.backward_ms = layer, forward_ms, backward_ms

    def _backward_kernel(self, grad):
        launch(self.backward_ms)
        return grad

    def forward(self, x):
        launch(self.forward_ms)
        y = self.layer(x)
        if y.requires_grad:
            y.register_hook(self._backward_kernel)
        return y
